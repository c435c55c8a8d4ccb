#include "worker/limits/rank_groups.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/kernel/kill_ladder.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int64_t kPeriodUs = 100'000;  // the kernel's default

struct Setting {
  std::string file;
  std::string value;
  bool may_be_missing = false;
};

// In this order, because v1 refuses a limit of memory plus swap that is below the limit of memory.
std::vector<Setting> MemorySettings(bool is_v2, uint64_t bytes) {
  if (is_v2) {
    // Kills the rank as a whole: if its processes died one by one, it would hang or fail with a
    // reason other than the limit.
    return {{"memory.max", StrCat(bytes)},
            {"memory.swap.max", "0", true},
            {"memory.oom.group", "1", true}};
  }
  return {{"memory.limit_in_bytes", StrCat(bytes)},
          {"memory.memsw.limit_in_bytes", StrCat(bytes), true}};
}

std::vector<Setting> CpuSettings(bool is_v2, uint32_t millis) {
  const std::string quota = StrCat(kPeriodUs * millis / 1'000);
  if (is_v2) return {{"cpu.max", StrCat(quota, " ", kPeriodUs)}};
  return {{"cpu.cfs_period_us", StrCat(kPeriodUs)}, {"cpu.cfs_quota_us", quota}};
}

absl::Status Refused(const std::string& path, int error) {
  return absl::UnavailableError(
      StrCat(path, ": ", std::strerror(error),
             error == EINVAL ? "; fix: ask for no more than what the worker itself may use"
                             : "; fix: see docs/limits.md, or omit the limit"));
}

void AddOnce(const std::string& directory, std::vector<std::string>* directories) {
  if (std::find(directories->begin(), directories->end(), directory) == directories->end())
    directories->push_back(directory);
}

class Maker {
 public:
  Maker(CgroupFiles& files, common::ShimLaunch* order) : files_(files), order_(order) {}

  absl::Status Limit(const char* controller, const LimitController& place,
                     const std::vector<Setting>& settings) {
    if (place.base.empty()) {
      return absl::FailedPreconditionError(
          StrCat("it cannot limit ", controller, ": ", place.why, "; fix: ", place.fix));
    }
    const std::string attempt = StrCat(place.base, "/", common::AttemptCgroupName(order_->mark));
    RETURN_IF_ERROR(Make(attempt));
    if (attempt != order_->cgroup_dir) AddOnce(attempt, &order_->limit_dirs);
    if (place.is_v2)
      RETURN_IF_ERROR(Set(attempt, {"cgroup.subtree_control", StrCat("+", controller)}));
    for (common::RankLaunch& rank : order_->ranks) {
      const std::string directory = StrCat(attempt, "/rank-", rank.rank);
      RETURN_IF_ERROR(Make(directory));
      AddOnce(directory, &rank.limit_dirs);
      for (const Setting& setting : settings) RETURN_IF_ERROR(Set(directory, setting));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Make(const std::string& directory) {
    const int error = files_.MakeDirectory(directory);
    return error == 0 ? absl::OkStatus() : Refused(directory, error);
  }
  absl::Status Set(const std::string& directory, const Setting& setting) {
    const std::string path = StrCat(directory, "/", setting.file);
    const int error = files_.Write(path, setting.value);
    if (error == 0 || (setting.may_be_missing && error == ENOENT)) return absl::OkStatus();
    return Refused(path, error);
  }

  CgroupFiles& files_;
  common::ShimLaunch* const order_;
};

}  // namespace

absl::Status LimitRanks(CgroupFiles& files, const LimitHost& host, const v1::RankLimits& limits,
                        common::ShimLaunch* order) {
  Maker maker(files, order);
  // Memory first: the first of a rank's cgroups has its memory events.
  if (limits.memory_bytes() > 0) {
    RETURN_IF_ERROR(maker.Limit("memory", host.memory,
                                MemorySettings(host.memory.is_v2, limits.memory_bytes())));
    for (common::RankLaunch& rank : order->ranks) rank.limits_memory = true;
  }
  if (limits.cpu_millis() > 0) {
    RETURN_IF_ERROR(maker.Limit("cpu", host.cpu, CpuSettings(host.cpu.is_v2, limits.cpu_millis())));
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
