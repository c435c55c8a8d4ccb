// Which objects belong to a job's code: its manifest, its placement, and what that names. Remembered
// by job, because every node of the job asks for each of them, and a job's code never changes. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/base/cache.h"
#include "tree/digest.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::coordinator {

struct JobCode;
struct Jobs;
struct Process;

class CodeGate {
 public:
  // An error: the store cannot tell now.
  using Answer = std::function<void(absl::StatusOr<bool>)>;

  // False: there is no such job, or the object does not belong to its code. Answers immediately if known,
  // otherwise on a pool's thread.
  void Check(Jobs& jobs, JobCode& job_code, Process& process, uint64_t job,
             const std::string& sha256, Answer answer);
  void Forget(uint64_t job);

 private:
  // limit: code: objects of jobs' code that are remembered; looked up again
  static constexpr size_t kObjectsMax = 1'000'000;  // remembered, 32 bytes each
  // limit: code: jobs whose code is remembered; looked up again
  static constexpr size_t kJobsMax = 10'000;
  using Objects = std::vector<tree::Digest>;  // ascending
  using ObjectsOfJobs = Cache<uint64_t, const Objects>;

  static bool Has(const Objects& objects, const std::string& sha256);
  // On a pool's thread.
  static ObjectsOfJobs::Found Learn(JobCode& job_code, const v1::JobSpec& spec);

  ObjectsOfJobs jobs_{{.entries = kJobsMax,
                       .weight = kObjectsMax,
                       .weigh = [](const Objects& objects) { return objects.size(); }}};
};

}  // namespace muster::coordinator
