// Which (job, attempt, node) may send samples: attempts of known jobs, from nodes that have a part.
// Remembers a node's part of an attempt, because its batches come every second; more than two a second
// are refused. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "coordinator/base/cache.h"
#include "coordinator/gates/sample_checks.h"

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
  // With the part, if the verdict is that it may.
  using Answer = std::function<void(Verdict, std::shared_ptr<const SampledPart>)>;

  // Answers immediately if known, otherwise on another thread.
  void Find(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt, const std::string& node,
            Answer answer);
  void Forget(uint64_t job);

 private:
  static constexpr size_t kJobsMax = 10'000;  // remembered
  // limit: samples: batches a second of an attempt on a node; the rest is dropped
  static constexpr double kBatchesPerSecond = 2;
  // limit: samples: batches that may come at once after a pause
  static constexpr double kBatchesAtOnce = 32;  // those that waited for a connection
  struct Part {
    std::shared_ptr<const SampledPart> part;
    double allowance = kBatchesAtOnce;
    int64_t counted_ms = 0;
  };
  // The newest attempt of a live job. Its parts are assigned together, when it starts.
  struct Attempt {
    uint32_t number = 0;
    std::mutex mutex;                             // guards what follows
    std::unordered_map<std::string, Part> parts;  // by node
  };
  using Attempts = Cache<uint64_t, Attempt>;  // by job

  static Attempts::Found NewestOf(const v1::JobRecord& record, int64_t now_ms);
  struct Taken {
    Verdict verdict = Verdict::kNotNow;
    std::shared_ptr<const SampledPart> part = nullptr;
  };
  static Taken Take(Attempt& newest, uint32_t attempt, const std::string& node, int64_t now_ms);

  Attempts attempts_{{.entries = kJobsMax}};
};

}  // namespace muster::coordinator
