// /enroll/device and /enroll/device/poll: a person signs in at the cluster's identity provider
// (RFC 8628). Separate threads ask the provider, because it may take seconds to answer.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/base/fair_share.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/http/server/message.h"
#include "coordinator/identity/enrolment.h"
#include "coordinator/oidc/pending.h"
#include "coordinator/oidc/provider.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

inline constexpr std::string_view kDevice = "/enroll/device";
inline constexpr std::string_view kDevicePoll = "/enroll/device/poll";

class DeviceSignIn {
 public:
  static constexpr int kThreads = 2;
  // Requests that wait for a thread or have one, in all and of one address; further clients are told to
  // try again.
  // limit: sign-in at an identity provider: requests for its two threads; a poll is answered "not yet"
  static constexpr size_t kWaitingMost = 32;
  // limit: sign-in at an identity provider: the same of one address
  static constexpr size_t kWaitingOfOne = 8;
  // A request that waited longer is not worth asking the provider: its client gives up soon.
  static constexpr int64_t kWaitedMostMs = 10'000;

  // Decides, records it in the audit, and answers once that is durable.
  using Settle = std::function<void(const std::function<Enrolment::Outcome()>& decide,
                                    std::string_view path, const Peer& peer, Respond respond)>;
  // Both outlive this.
  DeviceSignIn(Daemon& daemon, Enrolment& enrolment, oidc::Client client, Settle settle);
  ~DeviceSignIn() { Stop(); }

  // Never block; any thread.
  void Begin(Request request, Respond respond);
  void Poll(Request request, Respond respond);
  // The provider's name for people: "id.example.org".
  std::string ProviderName() const;
  // Binds a sign-in that Begin has just answered to the browser that waits for it. The browser's session
  // will be that of a certificate whose key is thrown away.
  absl::Status BindToBrowser(const std::string& handle);
  std::optional<oidc::PendingSignIns::InBrowser> FindInBrowser(const std::string& handle);
  // Aborts the requests to the provider.
  void Stop();

 private:
  bool Post(const Peer& peer, std::function<void()> work);
  oidc::Provider::Times Now() const;
  absl::StatusOr<v1::DeviceResponse> BeginFor(const std::string& peer);
  void PollFor(const Request& request, const Respond& respond);
  struct Asked {
    std::string_view path;
    const Peer& peer;
    const Respond& respond;
  };
  // Ends the sign-in, or answers why it is still pending.
  void Conclude(const v1::DevicePollRequest& poll,
                const absl::StatusOr<oidc::Provider::Answer>& got, const Asked& asked);
  void Refuse(const absl::Status& why, const Asked& asked) const;

  Daemon& daemon_;
  Enrolment& enrolment_;
  const Settle settle_;
  std::atomic<bool> is_stopping_ = false;
  FairPlaces waiting_{{.most = kWaitingMost, .of_one = kWaitingOfOne}};
  oidc::PendingSignIns pending_;
  oidc::Provider provider_;
  WorkPool pool_;  // last: its threads use the others
};

// The error without a provider: JC1361.
absl::Status NoProvider();

}  // namespace muster::coordinator::http
