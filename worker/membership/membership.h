// This node as a member of its cluster: its credentials, which a thread keeps valid. It renews them with
// the old key when a third of their life is left, while jobs run, and also at the start if they have
// expired. It writes new ones to the file before anything uses them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "identity/credential_files.h"

namespace muster::worker {

// When to renew a certificate: at two thirds of its life, and up to a twentieth of it earlier, so
// that nodes that joined together do not renew together. `share` is from 0 to 1.
struct Validity {
  int64_t from_ms = 0;
  int64_t until_ms = 0;
};
int64_t RenewAtMs(const Validity& validity, double share);
// How long to wait after so many failures in a row: doubles, from 5 s to 5 minutes.
int64_t RenewalPauseMs(int failures);

class Membership {
 public:
  // NOT_FOUND: the node has not joined. `seed` is for the times of renewals.
  static absl::StatusOr<std::unique_ptr<Membership>> Open(const std::string& path, uint64_t seed);
  ~Membership() { Stop(); }

  std::shared_ptr<const identity::Credentials> Now() const;
  // From here on a thread keeps the credentials valid, and calls `renewed`.
  void Begin(std::function<void()> renewed);
  void Stop();
  // HTTPS of the coordinators that may lead now, by one that does: from the next renewal on these are asked first, and
  // kept with the credentials. Those that cannot be used are left out.
  void Learned(const std::vector<std::string>& https);

 private:
  Membership(std::string path, identity::Credentials credentials, uint64_t seed);
  void Run();
  // How long until the next try.
  int64_t MaybeRenew();
  absl::Status Renew();
  void Say(const absl::Status& why);

  const std::string path_;
  std::function<void()> renewed_;
  std::mt19937_64 jitter_;  // the thread's, as are the next ones
  Validity validity_;
  int64_t renew_at_ms_ = 0;
  int failures_ = 0;
  std::string said_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::shared_ptr<const identity::Credentials> credentials_;
  std::vector<std::string> https_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::worker
