// Which worker may send logs and metrics of which (job, attempt, rank): jobs that exist, attempts
// that were started, ranks below the attempt's world size, and, where the sender's node is known,
// only ranks that were assigned to it. Anything else is rejected before it touches a file. Any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/base/cache.h"
#include "coordinator/gates/reach.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Jobs;
struct Process;

class JobGate {
 public:
  JobGate();

  enum class Verdict {
    kMay,
    kUnknown,    // there is no such job, attempt or rank
    kNotItsOwn,  // it is on another node, or was assigned to another incarnation of this one
  };
  struct Subject {
    uint64_t job = 0;
    uint32_t attempt = 0;
    std::optional<uint32_t> rank = std::nullopt;  // none: the attempt's part on the sender's node
  };
  using Answer = std::function<void(Verdict)>;

  // Answers immediately if known, otherwise on another thread.
  void Check(Jobs& jobs, Process& process, const NodeIdentity& sender, const Subject& subject,
             Answer answer);
  void Forget(uint64_t job);

 private:
  static constexpr size_t kJobsMax = 10'000;
  // limit: nodes: parts of attempts that are remembered; looked up again
  static constexpr size_t kPartsMax = 500'000;  // of all of them, about 60 bytes each
  struct Part {
    uint32_t first_rank = 0;
    uint32_t ranks = 0;
    uint64_t incarnation = 0;
    std::string node;
  };
  struct Started {
    uint32_t world_size = 0;  // 0: not known
    std::vector<Part> parts;  // by first rank
  };
  struct Known {
    uint32_t attempts = 0;                // started so far
    std::map<uint32_t, Started> started;  // the attempts in the record
    uint32_t ranks_max = 0;               // for any other attempt, from the job's shape
  };
  using KnownJobs = Cache<uint64_t, const Known>;
  using OlderAttempts = Cache<std::pair<uint64_t, uint32_t>, const Started>;  // by job and attempt

  static Known Learn(const v1::JobRecord& record);
  static Started LearnAttempt(const v1::Attempt& attempt);
  // Nothing: it depends on the parts of an attempt that the record no longer has.
  static std::optional<Verdict> Judge(const Known& known, const NodeIdentity& sender,
                                      const Subject& subject);
  static bool Owns(const Started& started, const NodeIdentity& sender, const Subject& subject);
  // From the job's events. On a pool's thread.
  static OlderAttempts::Found FindOlder(Jobs& jobs, const Subject& subject);
  void JudgeKnown(Jobs& jobs, Process& process, const Known& known, const NodeIdentity& sender,
                  const Subject& subject, const Answer& answer);

  KnownJobs jobs_;
  OlderAttempts older_;  // attempts that were asked for and are no longer in the records
};

}  // namespace muster::coordinator
