// POST /sign-in: a browser signs in with a token that a person pasted: HTTP-TOKEN, a link of `jobctl ui`, or
// a person's token, which this uses up. The session of the latter is that of a certificate of its user, with
// the rules, the audit and the end of one; its key is thrown away.
//
// /sign-in/provider: the same at the cluster's identity provider, by the device grant, whose client needs
// no address of ours registered there. POST begins it; GET shows the code, and signs in once it is
// confirmed. What names the sign-in is only in a cookie of the browser that began it (SameSite=Strict), so
// no link signs anybody in as somebody else.
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

// A body of "token=…&next=…" as forms send it.
bool IsSignInForm(const RequestHead& head);

// Has the audit record who signed in at `path` (`who` empty: nobody, the address tried), or why not.
// An error: there is no place for it, and so nobody signs in.
absl::Status RecordSignIn(Daemon& daemon, std::string_view path, std::string_view who,
                          const Peer& peer, const absl::Status& result);

// The server's thread; what has to be looked up in the directory is answered from the daemon's pool.
class BrowserSignIn {
 public:
  // All outlive this. `enroll` may be null: there are no people to sign in.
  BrowserSignIn(Daemon& daemon, Sessions& sessions, EnrollHandler* enroll)
      : daemon_(daemon), sessions_(sessions), enroll_(enroll) {}

  // After Site's checks. Answers with a page that has the cookie, or the form again with what is wrong.
  void Answer(const Request& request, Respond respond);
  void AnswerAtProvider(const Request& request, const Target& target, Respond respond);
  // A link's ticket for a cookie, and on to `next`.
  Response Redeem(std::string_view ticket, const Peer& peer, const std::string& next);
  // With the provider's button, where there is one.
  Response SignedOutPage(SignedOut why) const;

 private:
  void BeginAtProvider(const Request& request, Respond respond);
  void LookAtProvider(const Request& request, const std::string& next, Respond respond);
  // What a look at the provider has answered.
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
