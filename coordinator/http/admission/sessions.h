// Authenticates HTTP clients. There are three ways: the token itself (Authorization: Bearer), a cookie
// in exchange for a one-time sign-in link, and, only for /metrics, a second token for a scraper.
//
// A cookie consists of an expiry time and its holder, signed with the token, so it survives a restart
// and needs no memory; deleting the token's file and restarting ends all of them. What its user may do
// is looked up for each request: a removed or disabled user has no session. Any thread.
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
  // At most, for a user who signed in with a certificate.
  static constexpr int64_t kMemberCookieLivesS = 12 * 3'600;
  // Unused links; beyond this the oldest is forgotten.
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
  // `is_encrypted`: browsers send the cookie only over TLS.
  Sessions(Secrets secrets, std::string cookie_name, bool is_encrypted)
      : secrets_(std::move(secrets)),
        cookie_name_(std::move(cookie_name)),
        is_encrypted_(is_encrypted) {}

  // The holder of a link and its cookie.
  struct Holder {
    std::string principal;     // "user:alice", "uid:1000"
    std::string user_id = {};  // Caller.user_id: excludes a person who gets the name later
    std::string serial;        // of the certificate that asked for the link; empty: none
    int64_t until_s = 0;  // of a link: when that certificate and thus the session ends; 0: none
  };
  // The ticket of a new sign-in link.
  std::string MakeTicket(Holder holder, MonoTime now);
  // The value of Set-Cookie for a ticket that was made within kLinkLives and not used yet, otherwise
  // UNAUTHENTICATED. `principal`: set to the link's holder, even if the link is too old; may be null.
  absl::StatusOr<std::string> Redeem(std::string_view ticket, MonoTime now, int64_t unix_s,
                                     std::string* principal = nullptr);

  // The cookie of a sign-in at the identity provider that this browser has begun: its secret, which a
  // browser does not send when it follows another site's link. `lives_s` 0: the sign-in is over.
  std::string ProviderCookie(std::string_view handle, int64_t lives_s) const;
  std::string_view ProviderHandleOf(const Fields& fields) const;

  enum class Proof { kNone, kToken, kCookie, kMetricsToken };
  struct Session {
    Proof proof = Proof::kNone;
    Holder holder;  // of a cookie; the tokens have no holder
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
  // Nothing: the cookie is not valid.
  std::optional<Holder> HolderOfCookie(std::string_view value, int64_t unix_s) const;

  const Secrets secrets_;
  const std::string cookie_name_;
  const bool is_encrypted_;
  std::mutex mutex_;  // guards what follows
  std::deque<Ticket> tickets_;
};

// Takes the same time wherever the first difference lies.
bool EqualsInConstantTime(std::string_view a, std::string_view b);
// A value in a Cookie field "a=1; b=2"; empty if there is none of that name.
std::string_view CookieOf(std::string_view cookie_field, std::string_view name);
// JC1313.
absl::Status NotSignedIn(std::string why);
// The answer to a client that has not proved who it is.
Response ErrorOfSession(const absl::Status& why);

}  // namespace muster::coordinator::http
