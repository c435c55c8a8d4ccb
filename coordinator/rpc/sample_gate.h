// Which (job, attempt, node) may send samples: attempts of known jobs, from nodes that have a part.
// Remembers what a node holds of an attempt, because its batches come every second; more than two a
// second are refused. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "coordinator/sample_checks.h"

namespace muster::coordinator {

struct Jobs;
struct Process;

class SampleGate {
 public:
  enum class Verdict {
    kMay,
    kNotNow,     // the job is over, a newer attempt is known, or the node sends too often
    kNotItsOwn,  // the attempt has no part on that node
  };
  // The part, if it may.
  using Answer = std::function<void(Verdict, std::shared_ptr<const SampledPart>)>;

  // Answers immediately if known, otherwise on another thread.
  void Find(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt, const std::string& node,
            Answer answer);
  void Forget(uint64_t job);

 private:
  static constexpr size_t kAttemptsMax = 10'000;  // remembered
  static constexpr double kBatchesPerSecond = 2;
  static constexpr double kBatchesAtOnce = 32;  // those that waited for a connection
  struct Part {
    std::shared_ptr<const SampledPart> part;
    double allowance = kBatchesAtOnce;
    int64_t counted_ms = 0;
  };
  using Parts = std::unordered_map<std::string, Part>;  // by node
  using Key = std::pair<uint64_t, uint32_t>;            // job, attempt

  struct Taken {
    Verdict verdict = Verdict::kNotNow;
    std::shared_ptr<const SampledPart> part = nullptr;
  };
  static Taken Take(Parts& parts, const std::string& node, int64_t now_ms);

  std::mutex mutex_;  // guards what follows
  std::map<Key, Parts> attempts_;
};

}  // namespace muster::coordinator
