// Who signs requests to S3: credentials, from where AWS's own tools look for them, renewed before they expire. They
// are never printed: no error or log has more of them than the access key's name.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace muster::coordinator::s3 {

struct Credentials {
  std::string access_key;  // not a secret
  std::string secret_key;
  std::string session_token;  // of temporary ones; empty: none
  int64_t expires_ms = 0;     // Unix; 0: never

  // Both keys are there, and all are visible ASCII characters: what a header can hold.
  bool AreUsable() const;
  bool operator==(const Credentials&) const = default;
};

// Keeps what `fetch` brings. Fetching blocks the one caller that finds them too old, and others only if those at hand
// have expired. Any thread.
class CredentialCache {
 public:
  using Fetch = std::function<absl::StatusOr<Credentials>()>;
  using WallMs = std::function<int64_t()>;

  // They are renewed when they have less left.
  static constexpr int64_t kRenewedBeforeMs = 300'000;
  // And not more often than this, even if they seem to have expired: the clock may be wrong.
  static constexpr int64_t kFetchedEveryMs = 10'000;

  CredentialCache(Fetch fetch, WallMs wall_ms)
      : fetch_(std::move(fetch)), wall_ms_(std::move(wall_ms)) {}

  // The error of `fetch`, if there are none at hand that are valid.
  absl::StatusOr<Credentials> Get();
  // The server refuses `refused`, as one may that were replaced: whether there are others now.
  bool Renew(const Credentials& refused);

 private:
  absl::StatusOr<Credentials> FetchNow(std::unique_lock<std::mutex>& lock);
  bool MayFetch() const;

  const Fetch fetch_;
  const WallMs wall_ms_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable fetched_;
  bool is_fetching_ = false;
  std::optional<Credentials> kept_;
  std::optional<int64_t> fetched_mono_ms_;  // the last try
};

}  // namespace muster::coordinator::s3
