#include "coordinator/oidc/pending.h"

#include <algorithm>
#include <iterator>

#include "common/hash/hex.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "identity/keys.h"

namespace muster::coordinator::oidc {
namespace {

constexpr size_t kHandleBytes = 32;

absl::Status TooManyPending(size_t count, std::string_view whose) {
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1356",
       .what = common::StrCat("too many people sign in at once: ", count, whose,
                              " have not been confirmed at the identity provider yet")});
}

}  // namespace

void PendingSignIns::ForgetExpired(int64_t now_ms) {
  std::erase_if(all_, [now_ms](const auto& each) {
    const SignIn& sign_in = each.second;
    return sign_in.until_ms <= now_ms || sign_in.polled_ms + kSilentMs <= now_ms;
  });
}

absl::StatusOr<std::string> PendingSignIns::Reserve(const std::string& peer, int64_t now_ms) {
  std::string handle = common::ToHex(identity::RandomBytes(kHandleBytes));
  const std::lock_guard lock(mutex_);
  ForgetExpired(now_ms);
  if (all_.size() >= kMost) return TooManyPending(all_.size(), " sign-ins");
  const auto of_peer = static_cast<size_t>(std::count_if(
      all_.begin(), all_.end(), [&](const auto& each) { return each.second.peer == peer; }));
  if (of_peer >= kMostOfPeer) return TooManyPending(of_peer, " sign-ins of this address");
  SignIn& made = all_[common::Sha256Hex(handle)];
  made.peer = peer;
  made.until_ms = now_ms + kSilentMs;
  made.next_ms = made.until_ms;
  made.polled_ms = now_ms;
  return handle;
}

void PendingSignIns::Fill(const std::string& handle, const DeviceGrant& grant, int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(common::Sha256Hex(handle));
  if (found == all_.end()) return;
  SignIn& sign_in = found->second;
  sign_in.grant = grant;
  sign_in.interval_ms = grant.interval_s * 1'000;
  sign_in.next_ms = now_ms + sign_in.interval_ms;
  sign_in.until_ms = now_ms + grant.expires_s * 1'000;
}

void PendingSignIns::Bind(const std::string& handle, const std::string& csr_pem,
                          const std::string& key_sha256) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(common::Sha256Hex(handle));
  if (found == all_.end()) return;
  found->second.csr_pem = csr_pem;
  found->second.key_sha256 = key_sha256;
}

std::optional<PendingSignIns::InBrowser> PendingSignIns::FindInBrowser(const std::string& handle,
                                                                       int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  ForgetExpired(now_ms);
  const auto found = all_.find(common::Sha256Hex(handle));
  if (found == all_.end() || found->second.csr_pem.empty()) return std::nullopt;
  return InBrowser{.grant = found->second.grant, .csr_pem = found->second.csr_pem};
}

PendingSignIns::Taken PendingSignIns::Take(const Poll& poll) {
  const std::lock_guard lock(mutex_);
  ForgetExpired(poll.now_ms);
  const auto found = all_.find(common::Sha256Hex(poll.handle));
  if (found == all_.end()) return {.verdict = Verdict::kUnknown, .device_code = ""};
  SignIn& sign_in = found->second;
  // A client that learns the handle later cannot take the certificate that another asked for.
  if (sign_in.key_sha256.empty()) sign_in.key_sha256 = poll.key_sha256;
  if (sign_in.key_sha256 != poll.key_sha256)
    return {.verdict = Verdict::kOtherKey, .device_code = ""};
  sign_in.polled_ms = poll.now_ms;
  if (sign_in.is_asked || poll.now_ms < sign_in.next_ms)
    return {.verdict = Verdict::kNotYet, .device_code = ""};
  sign_in.is_asked = true;
  return {.verdict = Verdict::kAsk, .device_code = sign_in.grant.device_code};
}

void PendingSignIns::Later(const std::string& handle, bool slow_down, int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(common::Sha256Hex(handle));
  if (found == all_.end()) return;
  SignIn& sign_in = found->second;
  if (slow_down) sign_in.interval_ms += kSlowDownMs;
  sign_in.next_ms = now_ms + sign_in.interval_ms;
  sign_in.is_asked = false;
}

void PendingSignIns::Drop(const std::string& handle) {
  const std::lock_guard lock(mutex_);
  all_.erase(common::Sha256Hex(handle));
}

size_t PendingSignIns::Count(int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  ForgetExpired(now_ms);
  return all_.size();
}

}  // namespace muster::coordinator::oidc
