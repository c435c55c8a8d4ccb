#include "coordinator/http/admission/sessions.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/hash/hex.h"
#include "common/hash/hmac.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/http/admission/token_file.h"
#include "coordinator/http/server/answers.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr std::string_view kBearer = "bearer ";
constexpr std::string_view kProviderSuffix = "_provider";

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string_view BearerOf(std::string_view authorization) {
  if (authorization.size() < kBearer.size()) return {};
  const bool is_bearer = std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                                    [](char a, char b) { return a == (b | 0x20); });
  return is_bearer ? Trimmed(authorization.substr(kBearer.size())) : std::string_view();
}

// Neither part has a blank.
std::string TextOf(const Sessions::Holder& holder) {
  return StrCat(OwnerKey(holder.principal, holder.user_id), " ", holder.serial);
}

Sessions::Holder HolderOfText(std::string_view text) {
  const size_t blank = std::min(text.rfind(' '), text.size());
  Owner owner = OwnerOfKey(text.substr(0, blank));
  return {.principal = std::move(owner.name),
          .user_id = std::move(owner.id),
          .serial = std::string(text.substr(std::min(blank + 1, text.size())))};
}

}  // namespace

bool EqualsInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view CookieOf(std::string_view cookie_field, std::string_view name) {
  while (!cookie_field.empty()) {
    const size_t end = cookie_field.find(';');
    const std::string_view pair = Trimmed(cookie_field.substr(0, end));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      return pair.substr(equals + 1);
    }
    if (end == std::string_view::npos) break;
    cookie_field.remove_prefix(end + 1);
  }
  return {};
}

absl::Status NotSignedIn(std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = "JC1313",
       .what = "you are not signed in",
       .why = std::move(why),
       .fix = "`jobctl ui` prints a link that signs a browser in; programs send Authorization: "
              "Bearer with the token from HTTP-TOKEN in the coordinator's data directory"});
}

Response ErrorOfSession(const absl::Status& why) {
  Response response = ErrorResponse(why);
  response.fields.emplace_back("WWW-Authenticate", "Bearer realm=\"muster\"");
  return response;
}

std::string Sessions::MakeTicket(Holder holder, MonoTime now) {
  std::string ticket = RandomHex256();
  std::lock_guard lock(mutex_);
  while (!tickets_.empty() && tickets_.front().until <= now) tickets_.pop_front();
  const auto is_same = [&](const Ticket& each) {
    return each.holder.principal == holder.principal;
  };
  // A user who asks for many loses their own, not those of others.
  const auto own = static_cast<size_t>(std::count_if(tickets_.begin(), tickets_.end(), is_same));
  if (own >= kLinksOfOneMax) {
    tickets_.erase(std::find_if(tickets_.begin(), tickets_.end(), is_same));
  } else if (tickets_.size() >= kLinksMax) {
    tickets_.pop_front();
  }
  tickets_.push_back({.text = ticket, .holder = std::move(holder), .until = now + kLinkLives});
  return ticket;
}

absl::StatusOr<std::string> Sessions::Redeem(std::string_view ticket, MonoTime now, int64_t unix_s,
                                             std::string* principal) {
  Holder holder;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(tickets_.begin(), tickets_.end(), [&](const Ticket& each) {
      return EqualsInConstantTime(each.text, ticket);
    });
    if (found == tickets_.end()) {
      return NotSignedIn("the sign-in link was used before, or the coordinator did not make it");
    }
    const bool is_late = found->until <= now;
    holder = std::move(found->holder);
    tickets_.erase(found);
    if (principal != nullptr) *principal = holder.principal;
    if (is_late) return NotSignedIn("the sign-in link is too old");
  }
  int64_t lives_s = holder.serial.empty() ? kCookieLivesS : kMemberCookieLivesS;
  if (holder.until_s != 0) lives_s = std::min(lives_s, holder.until_s - unix_s);
  if (lives_s <= 0) return NotSignedIn("the certificate that asked for the link has expired");
  const int64_t until_s = unix_s + lives_s;
  const std::string text = TextOf(holder);
  return CookieText(cookie_name_,
                    StrCat(until_s, ".", Sign(until_s, text), ".", common::ToHex(text)), lives_s);
}

std::string Sessions::CookieText(std::string_view name, std::string_view value,
                                 int64_t lives_s) const {
  return StrCat(name, "=", value, "; Path=/; HttpOnly; SameSite=Strict; ",
                is_encrypted_ ? "Secure; " : "", "Max-Age=", lives_s);
}

std::string Sessions::ProviderCookie(std::string_view handle, int64_t lives_s) const {
  return CookieText(StrCat(cookie_name_, kProviderSuffix), handle, lives_s);
}

std::string_view Sessions::ProviderHandleOf(const Fields& fields) const {
  return CookieOf(FieldOf(fields, "cookie"), StrCat(cookie_name_, kProviderSuffix));
}

std::string Sessions::Sign(int64_t until_s, std::string_view holder) const {
  // Includes the name, so that a cookie that leaked to another process on its port is useless on other ports.
  return common::HmacSha256Hex(secrets_.token,
                               StrCat("muster-session ", cookie_name_, " ", until_s, " ", holder));
}

std::optional<Sessions::Holder> Sessions::HolderOfCookie(std::string_view value,
                                                         int64_t unix_s) const {
  const size_t first = value.find('.');
  const size_t second = first == std::string_view::npos ? first : value.find('.', first + 1);
  int64_t until_s = 0;
  if (second == std::string_view::npos ||
      !absl::SimpleAtoi(common::ToAbsl(value.substr(0, first)), &until_s)) {
    return std::nullopt;
  }
  const std::string holder = common::FromHex(value.substr(second + 1)).value_or("");
  const std::string_view signature = value.substr(first + 1, second - first - 1);
  const bool is_valid = EqualsInConstantTime(signature, Sign(until_s, holder)) && unix_s < until_s;
  if (!is_valid || holder.empty()) return std::nullopt;
  return HolderOfText(holder);
}

Sessions::Session Sessions::SessionOf(const Fields& fields, int64_t unix_s) const {
  const std::string_view bearer = BearerOf(FieldOf(fields, "authorization"));
  if (!bearer.empty()) {
    if (EqualsInConstantTime(bearer, secrets_.token)) return {.proof = Proof::kToken};
    if (EqualsInConstantTime(bearer, secrets_.metrics_token))
      return {.proof = Proof::kMetricsToken};
    return {};
  }
  const std::string_view cookie = CookieOf(FieldOf(fields, "cookie"), cookie_name_);
  std::optional<Holder> holder = HolderOfCookie(cookie, unix_s);
  if (!holder.has_value()) return {};
  return {.proof = Proof::kCookie, .holder = *std::move(holder)};
}

}  // namespace muster::coordinator::http
