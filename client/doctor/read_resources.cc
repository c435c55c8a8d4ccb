// Disks, limits, the clock and the kernel's memory.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/doctor/machine.h"
#include "common/files/cgroup_files.h"
#include "common/files/files.h"
#include "common/kernel/kill_ladder.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;

constexpr size_t kKernelRecordsMax = 20'000;

LimitFacts ReadLimit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return {};
  const auto value = [](rlim_t number) {
    return number == RLIM_INFINITY ? kUnlimited : uint64_t{number};
  };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

std::vector<std::string> KernelRecords(const std::string& path, bool* readable) {
  std::vector<std::string> records;
  const common::UniqueFd log(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  *readable = log.valid();
  char record[8192];
  for (size_t i = 0; log.valid() && i < kKernelRecordsMax; ++i) {
    const ssize_t count = read(log.get(), record, sizeof(record));
    if (count < 0 && errno == EPIPE) continue;  // overwritten meanwhile; the next one is there
    if (count <= 0) break;
    records.emplace_back(record, static_cast<size_t>(count));
  }
  return records;
}

std::optional<int64_t> MemoryKillsSinceBoot(const std::string& vmstat) {
  for (const absl::string_view line : absl::StrSplit(vmstat, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, ' ');
    int64_t kills = 0;
    if (field.first == "oom_kill" && absl::SimpleAtoi(field.second, &kills)) return kills;
  }
  return std::nullopt;
}

}  // namespace

ClockFacts ReadClock() {
  ClockFacts facts;
  facts.wall_s = time(nullptr);
  timex state{};  // modes 0: only reads
  const int result = adjtimex(&state);
  if (result < 0) {
    facts.trouble = strerror(errno);
    return facts;
  }
  facts.synchronized = result != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  facts.error_us = state.maxerror;
  return facts;
}

DiskFacts ReadDisk(const std::string& path) {
  DiskFacts facts;
  facts.path = path;
  struct statvfs disk {};
  int failed = statvfs(facts.path.c_str(), &disk);
  while (failed != 0 && errno == ENOENT && facts.path.size() > 1) {
    const size_t slash = facts.path.rfind('/');
    facts.path = slash == 0 || slash == std::string::npos ? "/" : facts.path.substr(0, slash);
    failed = statvfs(facts.path.c_str(), &disk);
  }
  if (failed != 0) {
    facts.trouble = StrCat(facts.path, ": ", strerror(errno));
    return facts;
  }
  facts.bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
  facts.bytes_free = uint64_t{disk.f_bavail} * disk.f_frsize;
  facts.inodes = disk.f_files;
  facts.inodes_free = disk.f_favail;
  return facts;
}

LimitsFacts ReadLimits() {
  return {.open_files = ReadLimit(RLIMIT_NOFILE),
          .processes = ReadLimit(RLIMIT_NPROC),
          .locked_memory = ReadLimit(RLIMIT_MEMLOCK),
          .core_file = ReadLimit(RLIMIT_CORE),
          .is_root = geteuid() == 0};
}

void FindLastMemoryKill(const std::vector<std::string>& records, int64_t uptime_us,
                        MemoryFacts* facts) {
  constexpr std::string_view kKilled = "Killed process ";
  for (const std::string& record : records) {
    // "3,1234,5678901,-;Memory cgroup out of memory: Killed process 77 (python) total-vm:…"
    const size_t at = record.find(kKilled);
    const size_t text = record.find(';');
    if (at == std::string::npos || text > at) continue;
    const std::vector<absl::string_view> head = absl::StrSplit(record.substr(0, text), ',');
    int64_t at_us = 0;
    if (head.size() < 3 || !absl::SimpleAtoi(head[2], &at_us)) continue;
    const size_t pid_end = record.find(' ', at + kKilled.size());
    const size_t name_end = record.find(')', at);
    if (pid_end == std::string::npos || name_end == std::string::npos || name_end < pid_end + 2)
      continue;
    facts->last_kill_ago_s = (uptime_us - at_us) / 1'000'000;
    facts->last_killed =
        StrCat(record.substr(pid_end + 2, name_end - pid_end - 2), " (pid ",
               record.substr(at + kKilled.size(), pid_end - at - kKilled.size()), ")");
  }
}

MemoryFacts ReadMemory(const std::string& root) {
  MemoryFacts facts;
  facts.kill_level = common::KillLevelName(common::ProbeCgroupHost());
  facts.kills_attributed = common::OutOfMemoryKills() >= 0;
  facts.kills = MemoryKillsSinceBoot(common::ReadFile(root + "/proc/vmstat").value_or(""));
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  FindLastMemoryKill(KernelRecords(root + "/dev/kmsg", &facts.log_readable),
                     now.tv_sec * 1'000'000 + now.tv_nsec / 1000, &facts);
  return facts;
}

}  // namespace muster::client::doctor
