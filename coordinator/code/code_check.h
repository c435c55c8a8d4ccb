// Whether a spec's code may become a job's: its project uploaded the manifest, the placement and
// every object that the placement names, and they fit each other. A verdict is remembered, and of
// many submits of the same code at once one is looked at while the others wait for it. One is looked at
// at a time, as that takes up to a few times the size of its manifest and placement. Any thread.
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

  // Of a spec that has code. FAILED_PRECONDITION (JC1702): something was not uploaded;
  // INVALID_ARGUMENT (JC1704): it does not fit. OK: the code counts as used. `then` is called here, or
  // on the pool of files.
  void Check(JobStores& stores, JobCode& job_code, Process& process, const v1::JobSpec& spec,
             Then then);

 private:
  using Steady = std::chrono::steady_clock;
  // limit: code: verdicts about code that are remembered; looked up again
  static constexpr size_t kRememberedMax = 10'000;
  // limit: code: codes that wait for their verdict; their callers are told to ask again
  static constexpr size_t kWaitingMax = 256;  // different codes; more are told to come again
  // Then the use is recorded again; far shorter than what is unused is kept (periodic/code_garbage.h).
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
  std::deque<std::function<void()>> looks_;  // that nobody has begun
  bool is_looking_ = false;
};

}  // namespace muster::coordinator
