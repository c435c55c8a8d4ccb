#include "coordinator/s3/credentials.h"

#include <algorithm>

namespace muster::coordinator::s3 {
namespace {

constexpr size_t kCredentialBytesMax = 16 * 1024;
constexpr int64_t kValidForMs = 10'000;  // as long as a request takes to arrive

bool IsVisibleAscii(const std::string& text) {
  return text.size() <= kCredentialBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool HaveLeft(const Credentials& credentials, int64_t wall_ms, int64_t least_ms) {
  return credentials.expires_ms == 0 || credentials.expires_ms - wall_ms > least_ms;
}

}  // namespace

bool Credentials::AreUsable() const {
  return !access_key.empty() && !secret_key.empty() && IsVisibleAscii(access_key) &&
         IsVisibleAscii(secret_key) && IsVisibleAscii(session_token);
}

absl::StatusOr<Credentials> CredentialCache::Get() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (kept_ && HaveLeft(*kept_, wall_ms_(), kRenewedBeforeMs)) return *kept_;
    const bool are_valid = kept_ && HaveLeft(*kept_, wall_ms_(), kValidForMs);
    if (kept_ && !MayFetch()) return *kept_;
    if (!is_fetching_) break;
    if (are_valid) return *kept_;
    fetched_.wait(lock);
  }
  return FetchNow(lock);
}

bool CredentialCache::Renew(const Credentials& refused) {
  std::unique_lock lock(mutex_);
  fetched_.wait(lock, [this] { return !is_fetching_; });
  if (kept_ && *kept_ != refused) return true;
  if (!MayFetch()) return false;
  const absl::StatusOr<Credentials> now = FetchNow(lock);
  return now.ok() && *now != refused;
}

bool CredentialCache::MayFetch() const {
  return !fetched_mono_ms_ || common::MonotonicMs() - *fetched_mono_ms_ >= kFetchedEveryMs;
}

absl::StatusOr<Credentials> CredentialCache::FetchNow(std::unique_lock<std::mutex>& lock) {
  is_fetching_ = true;
  lock.unlock();
  absl::StatusOr<Credentials> fresh = fetch_();
  lock.lock();
  is_fetching_ = false;
  fetched_mono_ms_ = common::MonotonicMs();
  fetched_.notify_all();
  if (fresh.ok()) {
    kept_ = *fresh;
  } else if (kept_ && HaveLeft(*kept_, wall_ms_(), kValidForMs)) {
    return *kept_;
  }
  return fresh;
}

}  // namespace muster::coordinator::s3
