// POST /sign-in: a browser signs in with a token that a person pasted: HTTP-TOKEN, a link of `jobctl ui`, or
// a person's token, which this uses up. The latter gives a session like that of a certificate of the user,
// with the same rules, audit entry and end; the certificate's key is thrown away.
//
// /sign-in/provider: the same through the cluster's identity provider, with the device grant, for which none
// of our addresses must be registered there. POST begins it; GET shows the code, and signs in once it is
// confirmed. The sign-in's handle is only in a cookie of the browser that began it (SameSite=Strict), so no
// link can sign a person in as another.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/target.h"
#include "coordinator/http/sign_in/enroll.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

inline constexpr std::string_view kSignInPath = "/sign-in";

// Whether the body is "token=…&next=…", as forms send it.
bool IsSignInForm(const RequestHead& head);

// Has the audit record who signed in at `path`, or why not (`who` empty: unknown, the address tried).
// An error: the audit has no place for the entry, so the sign-in must be refused.
absl::Status RecordSignIn(Daemon& daemon, std::string_view path, std::string_view who,
                          const Peer& peer, const absl::Status& result);

// The server's thread; what has to be looked up in the directory is answered from the daemon's pool.
class BrowserSignIn {
 public:
  // All outlive this. `enroll` may be null: then there are no people who could sign in.
  BrowserSignIn(Daemon& daemon, Sessions& sessions, EnrollHandler* enroll)
      : daemon_(daemon), sessions_(sessions), enroll_(enroll) {}

  // Call it after Site's checks. Answers with a page that sets the cookie, or the form again with the problem.
  void Answer(const Request& request, Respond respond);
  void AnswerAtProvider(const Request& request, const Target& target, Respond respond);
  // Exchanges a link's ticket for a cookie, and leads to `next`.
  Response Redeem(std::string_view ticket, const Peer& peer, const std::string& next);
  // With the provider's button, where there is one.
  Response SignedOutPage(SignedOut why) const;

 private:
  void BeginAtProvider(const Request& request, Respond respond);
  void LookAtProvider(const Request& request, const std::string& next, Respond respond);
  // Handles the answer of a look at the provider.
  Response TakeLook(const Response& answer, const Peer& peer, const std::string& handle,
                    const std::string& next);
  // Back to the form; the browser forgets the sign-in.
  Response EndAtProvider(const absl::Status& why, const std::string& next) const;
  void EnrollPerson(const Request& request, std::string token, std::string next, Respond respond);
  absl::StatusOr<std::string> TicketOfToken(const Request& request, std::string_view token);
  DeviceSignIn* provider() const { return enroll_ == nullptr ? nullptr : enroll_->device(); }

  Daemon& daemon_;
  Sessions& sessions_;
  EnrollHandler* const enroll_;
};

}  // namespace muster::coordinator::http
