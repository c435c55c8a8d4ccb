// Whether a spec's code may become a job's: its project uploaded the manifest, the placement and every
// object that the placement names, and they match each other. A verdict is remembered. If many submits of
// the same code arrive at once, one is checked and the others wait for it. Checks run one at a time, because
// each takes memory up to a few times the size of its manifest and placement. Any thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "coordinator/base/cache.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

struct JobCode;
struct JobStores;
struct Process;
class CodeChecks {
 public:
  using Then = std::function<void(const absl::Status&)>;

  // For a spec that has code. FAILED_PRECONDITION (JC1702): something was not uploaded;
  // INVALID_ARGUMENT (JC1704): it does not match. OK: the code counts as used. `then` is called here, or
  // on the pool of files.
  void Check(JobStores& stores, JobCode& job_code, Process& process, const v1::JobSpec& spec,
             Then then);

 private:
  using Steady = std::chrono::steady_clock;
  // limit: code: verdicts about code that are remembered; looked up again
  static constexpr size_t kRememberedMax = 10'000;
  // limit: code: different codes that wait for their verdict; further submits are told to try again
  static constexpr size_t kWaitingMax = 256;
  // After this the use is recorded again; far shorter than unused code is kept (periodic/code_garbage.h).
  static constexpr std::chrono::minutes kRemembered{30};
  struct Key {
    CodeName code;
    uint64_t manifest_bytes = 0;
    uint64_t placement_bytes = 0;
    std::string workdir;
    auto operator<=>(const Key&) const = default;
  };

  using Verdicts = Cache<Key, const Steady::time_point>;  // since when the code is known to be good

  void LookAtAll();

  Verdicts good_{{.entries = kRememberedMax, .lookups = kWaitingMax}};
  std::mutex mutex_;                         // guards what follows
  std::deque<std::function<void()>> looks_;  // not begun yet
  bool is_looking_ = false;
};

}  // namespace muster::coordinator
