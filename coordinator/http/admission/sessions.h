// Who may ask over HTTP. Three ways to prove it: the token itself (Authorization: Bearer), a cookie
// that a one-time sign-in link was exchanged for, and for /metrics alone a second token that a
// scraper may be given.
//
// A cookie is an expiry time and whose it is, signed with the token, so it survives a restart and
// needs no memory; deleting the token's file and restarting ends all of them. What its user may do
// is looked up for each request: who is removed or disabled has no session. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/http/server/message.h"

namespace muster::coordinator::http {

class Sessions {
 public:
  static constexpr std::chrono::seconds kLinkLives{120};
  static constexpr int64_t kCookieLivesS = 7 * 24 * 3'600;
  // At most, of who signed in with a certificate.
  static constexpr int64_t kMemberCookieLivesS = 12 * 3'600;
  // Unused ones; the oldest is forgotten.
  // limit: HTTP: sign-in links; the oldest is forgotten
  static constexpr size_t kLinksMax = 256;
  // limit: HTTP: sign-in links of one user; their oldest is forgotten
  static constexpr size_t kLinksOfOneMax = 16;

  using MonoTime = std::chrono::steady_clock::time_point;

  struct Secrets {
    std::string token;
    std::string metrics_token;
  };
  // `cookie_name` must differ among the coordinators of one host: browsers send a cookie to every
  // port.
  // `is_encrypted`: browsers send the cookie over TLS alone.
  Sessions(Secrets secrets, std::string cookie_name, bool is_encrypted)
      : secrets_(std::move(secrets)),
        cookie_name_(std::move(cookie_name)),
        is_encrypted_(is_encrypted) {}

  // Whose a link and its cookie are.
  struct Holder {
    std::string principal;     // "user:alice", "uid:1000"
    std::string user_id = {};  // Caller.user_id: not whoever is given the name later
    std::string serial;        // of the certificate that asked for the link; empty: none
    int64_t until_s = 0;  // of a link: when that certificate ends, and the session with it; 0: none
  };
  // The ticket of a new sign-in link.
  std::string MakeTicket(Holder holder, MonoTime now);
  // The value of Set-Cookie for a ticket that was made within kLinkLives and not used yet, otherwise
  // UNAUTHENTICATED. `principal`: whose link it was, also of one that is too old; null: of no interest.
  absl::StatusOr<std::string> Redeem(std::string_view ticket, MonoTime now, int64_t unix_s,
                                     std::string* principal = nullptr);

  // The cookie of a sign-in at the identity provider that this browser has begun: its secret, which no
  // other site's link is sent along with. `lives_s` 0: it is over.
  std::string ProviderCookie(std::string_view handle, int64_t lives_s) const;
  std::string_view ProviderHandleOf(const Fields& fields) const;

  enum class Proof { kNone, kToken, kCookie, kMetricsToken };
  struct Session {
    Proof proof = Proof::kNone;
    Holder holder;  // of a cookie; the tokens name nobody
  };
  Session SessionOf(const Fields& fields, int64_t unix_s) const;

 private:
  struct Ticket {
    std::string text;
    Holder holder;
    MonoTime until;
  };
  // The value of Set-Cookie.
  std::string CookieText(std::string_view name, std::string_view value, int64_t lives_s) const;
  std::string Sign(int64_t until_s, std::string_view holder) const;
  // Nothing: it is not valid.
  std::optional<Holder> HolderOfCookie(std::string_view value, int64_t unix_s) const;

  const Secrets secrets_;
  const std::string cookie_name_;
  const bool is_encrypted_;
  std::mutex mutex_;  // guards what follows
  std::deque<Ticket> tickets_;
};

// Takes the same time wherever the first difference is.
bool EqualsInConstantTime(std::string_view a, std::string_view b);
// Of a Cookie field "a=1; b=2"; empty if there is none of that name.
std::string_view CookieOf(std::string_view cookie_field, std::string_view name);
// JC1313.
absl::Status NotSignedIn(std::string why);

}  // namespace muster::coordinator::http
