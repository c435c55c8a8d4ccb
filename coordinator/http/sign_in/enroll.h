// /enroll/…: the requests of a node or a person that has no certificate yet, and those that renew one.
// Without a session; only on an encrypted connection; bounded in size and number. identity/enrolment.h
// decides.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/admission/request_pace.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/target.h"
#include "coordinator/http/sign_in/device_sign_in.h"
#include "coordinator/identity/enrolment.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

// limit: enrolment: a body; 413
inline constexpr size_t kEnrollBodyMax = 64 * 1024;

inline constexpr std::string_view kAuthorityPath = "/enroll/ca";
bool IsEnroll(std::string_view path);

// The audit's entry for a client without a session: at which path, as whom, and the result.
v1::AuditEntry EnrollEntry(std::string_view path, std::string_view who, const Peer& peer,
                           const absl::Status& result);

// The server's thread; the answers come from the daemon's pool, those of the identity provider from
// DeviceSignIn's.
class EnrollHandler {
 public:
  // Both outlive this. Without a client, sign-in at an identity provider is not available.
  EnrollHandler(Daemon& daemon, Enrolment& enrolment, std::optional<oidc::Client> client);
  // Asks the identity provider nothing more. Call it before stopping what the answers need.
  void Stop();

  // The response that refuses a request before its body is read.
  std::optional<Response> Check(const RequestHead& head, const Target& target);
  // Call it after the check. Never blocks.
  void Answer(Request request, const Target& target, Respond respond);

  // Null: there is no identity provider.
  DeviceSignIn* device() const { return device_.get(); }

 private:
  template <typename Message, typename Result>
  using Rule = Enrolment::OutcomeOf<Result> (Enrolment::*)(const Message&, const Enrolment::Asked&);
  template <typename Message, typename Result>
  void Decide(Rule<Message, Result> rule, Request request, std::string path, Respond respond);
  void Join(Request request, std::string path, Respond respond);
  // Decides, records it in the audit, and answers once that is durable.
  template <typename Decision>
  void Settle(const Decision& decide, std::string_view path, const Peer& peer,
              Respond respond) const;

  Daemon& daemon_;
  Enrolment& enrolment_;
  RequestPace pace_;
  std::unique_ptr<DeviceSignIn> device_;  // null: no identity provider
};

}  // namespace muster::coordinator::http
