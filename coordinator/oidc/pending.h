// Sign-ins that wait for a person to confirm them at the provider: bounded in number, in all and per peer,
// and forgotten when they expire or their clients stop polling. Only in memory: a restart of the coordinator
// drops them. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/oidc/answers.h"

namespace muster::coordinator::oidc {

class PendingSignIns {
 public:
  // limit: sign-in at an identity provider: sign-ins that wait; JC1356
  static constexpr size_t kMost = 256;
  // limit: sign-in at an identity provider: the same of one address or IPv6 /64; JC1356
  static constexpr size_t kMostOfPeer = 16;  // a whole office may be behind one address
  static constexpr int64_t kSlowDownMs = 5'000;
  // Strangers may begin sign-ins; those that are not polled make room long before they expire.
  static constexpr int64_t kSilentMs = 120'000;

  // A place for one more, and the handle that names it: 256 random bits, of which only the hash is
  // kept. RESOURCE_EXHAUSTED (JC1356): there are too many. Times are monotonic.
  absl::StatusOr<std::string> Reserve(const std::string& peer, int64_t now_ms);
  void Fill(const std::string& handle, const DeviceGrant& grant, int64_t now_ms);

  // For a sign-in that a browser waits for: a browser has no key, so this keeps the certificate request.
  // From now on the handle belongs to that request's key.
  void Bind(const std::string& handle, const std::string& csr_pem, const std::string& key_sha256);
  struct InBrowser {
    DeviceGrant grant;
    std::string csr_pem;
  };
  // Nothing: no browser waits for it, or no longer.
  std::optional<InBrowser> FindInBrowser(const std::string& handle, int64_t now_ms);

  struct Poll {
    std::string handle;
    std::string key_sha256;  // of the key to be certified
    int64_t now_ms = 0;
  };
  enum class Verdict {
    kAsk,       // the provider may be asked now, with the device code; then Later or Drop follows
    kNotYet,    // it was asked too recently, or is being asked
    kUnknown,   // no such handle, or it has expired
    kOtherKey,  // the first poll was for another key
  };
  struct Taken {
    Verdict verdict = Verdict::kUnknown;
    std::string device_code;
  };
  Taken Take(const Poll& poll);
  // The provider may be asked again after the interval, which grows if it told us to slow down.
  void Later(const std::string& handle, bool slow_down, int64_t now_ms);
  void Drop(const std::string& handle);
  size_t Count(int64_t now_ms);

 private:
  struct SignIn {
    std::string peer;
    DeviceGrant grant;
    std::string csr_pem;     // for a browser; empty: each poll brings one
    std::string key_sha256;  // empty: not polled yet
    int64_t interval_ms = 0;
    int64_t next_ms = 0;
    int64_t until_ms = 0;
    int64_t polled_ms = 0;
    bool is_asked = false;
  };
  void ForgetExpired(int64_t now_ms);

  std::mutex mutex_;                   // guards what follows
  std::map<std::string, SignIn> all_;  // by the handle's SHA-256
};

}  // namespace muster::coordinator::oidc
