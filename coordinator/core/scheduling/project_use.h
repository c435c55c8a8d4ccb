// How many devices each project has in use: derived from the live attempts, never stored, so that no changed quota,
// replay or upgrade can disagree with it. Attempts that are being stopped count until nothing of them lives. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

class ProjectUse {
 public:
  explicit ProjectUse(const SchedulingState& state);

  uint64_t Of(const std::string& project, const std::string& kind) const;
  // Whether the project, its quota for jobs that may not be asked to give way, and its limits of a person have room for
  // the job, which has no devices yet.
  bool FitsLimit(const v1::JobRecord& job, const std::string& kind) const;
  bool FitsQuotaIfItStays(const v1::JobRecord& job, const std::string& kind) const;
  bool FitsPerson(const v1::JobRecord& job, const std::string& kind) const;
  // Of jobs that may not be asked to give way.
  uint64_t OfStaying(const std::string& project, const std::string& kind) const;
  // Of what is in use, the part beyond the project's quota.
  uint64_t Borrowed(const std::string& project, const std::string& kind) const;
  // Takes from a shape with a range of nodes those with which the project or the owner would have more than the limit; and
  // the project more than its quota, if the job starts within it.
  void CutToShare(const v1::JobRecord& job, const std::string& kind, v1::Shape& shape) const;
  void Add(const v1::JobRecord& job, const v1::Attempt& attempt);
  // As it was before Add.
  void Remove(const v1::JobRecord& job, const v1::Attempt& attempt);

 private:
  void Count(const v1::JobRecord& job, const v1::Attempt& attempt, int64_t sign);
  // Of the kind; "": jobs of any kind. `owner`: an OwnerKey.
  uint64_t OfPerson(const std::string& project, const std::string& owner,
                    const std::string& kind) const;
  using ByProjectAndKind = std::map<std::pair<std::string, std::string>, uint64_t>;
  const ProjectShares& shares_;
  ByProjectAndKind devices_, staying_;
  // Only of projects that limit their people. The kind "" counts jobs.
  std::map<std::tuple<std::string, std::string, std::string>, uint64_t> of_people_;
};

// Unless its owner forbids it.
inline bool MayBeAskedToGiveWay(const v1::JobSpec& spec) {
  return !spec.has_preemptible() || spec.preemptible();
}
// The fewest devices that a job of this shape starts with.
uint64_t LeastDevices(const v1::Shape& shape);

}  // namespace muster::coordinator
