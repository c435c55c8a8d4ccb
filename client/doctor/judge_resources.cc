// Checks resources that run out: disks, shared memory, limits of the system.
#include "client/doctor/checks.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client::doctor {
namespace {

using common::HumanBytes;
using common::StrCat;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;
// The coordinator refuses jobs when it cannot keep its 16 MiB of headroom twice.
constexpr uint64_t kDiskLeast = 32 * kMiB;
constexpr uint64_t kDiskScarce = 5 * kGiB;
constexpr uint64_t kInodesLeast = 100;
constexpr uint64_t kInodesScarce = 10'000;
// A data loader's workers keep a few batches there, the SDK's collectives 1 MiB per rank and group.
constexpr uint64_t kSharedMemoryLeast = 32 * kMiB;
constexpr uint64_t kSharedMemoryScarce = kGiB;
constexpr uint64_t kOpenFilesLeast = 256;
constexpr uint64_t kOpenFilesScarce = 1024;
constexpr uint64_t kProcessesLeast = 256;
constexpr uint64_t kProcessesScarce = 4096;
constexpr int64_t kRecentS = 3600;

std::string Amount(uint64_t limit, bool bytes) {
  if (limit == kUnlimited) return "unlimited";
  return bytes ? HumanBytes(limit) : std::to_string(limit);
}

std::string Described(const LimitFacts& limit, bool bytes = false) {
  return limit.soft == limit.hard ? Amount(limit.soft, bytes)
                                  : StrCat(Amount(limit.soft, bytes), " (can be raised to ",
                                           Amount(limit.hard, bytes), ")");
}

}  // namespace

Verdict JudgeDisk(const DiskFacts& disk, std::string_view fix) {
  if (!disk.trouble.empty()) return {Grade::kBroken, disk.trouble, std::string(fix)};
  const std::string found =
      StrCat(HumanBytes(disk.bytes_free), " of ", HumanBytes(disk.bytes), " free at ", disk.path);
  if (disk.bytes_free < kDiskLeast)
    return {Grade::kBroken, StrCat("full: ", found), std::string(fix)};
  const bool counts_inodes = disk.inodes > 0;
  const std::string inodes = StrCat(found, ", but ", disk.inodes_free, " free inodes");
  if (counts_inodes && disk.inodes_free < kInodesLeast)
    return {Grade::kBroken, inodes, std::string(fix)};
  // Only 5 GB free is normal on a small disk if that is a tenth of it, but means that a large one
  // is almost full.
  if (disk.bytes_free < kDiskScarce && disk.bytes_free < disk.bytes / 10)
    return {Grade::kWarning, StrCat("almost full: ", found), std::string(fix)};
  if (counts_inodes && disk.inodes_free < kInodesScarce && disk.inodes_free < disk.inodes / 10)
    return {Grade::kWarning, inodes, std::string(fix)};
  return {Grade::kGood, found};
}

Verdict JudgeDataDisk(const MachineFacts& facts) {
  return JudgeDisk(facts.data_disk,
                   "jobctl rm old jobs and their checkpoints, or set JOBCTL_DATA_DIR to another "
                   "disk");
}

Verdict JudgeTempDisk(const MachineFacts& facts) {
  return JudgeDisk(facts.temp_disk, "delete old files in it (df -h, df -i), or set TMPDIR");
}

Verdict JudgeSharedMemory(const MachineFacts& facts) {
  const DiskFacts& memory = facts.shared_memory;
  const std::string fix = "sudo mount -o remount,size=50% /dev/shm; for a container, --shm-size 8g";
  if (!memory.trouble.empty()) return {Grade::kBroken, memory.trouble, fix};
  const std::string found =
      StrCat(HumanBytes(memory.bytes_free), " of ", HumanBytes(memory.bytes), " free");
  if (memory.bytes_free < kSharedMemoryLeast) {
    return {Grade::kBroken, StrCat(found, ": a data loader's workers die of a bus error"), fix};
  }
  if (memory.bytes < kSharedMemoryScarce) {
    return {Grade::kWarning, StrCat(found, ": little for data loaders with workers and for NCCL"),
            fix};
  }
  return {Grade::kGood, found};
}

Verdict JudgeOpenFiles(const MachineFacts& facts) {
  const LimitFacts& limit = facts.limits.open_files;
  const std::string found = Described(limit);
  const std::string fix = limit.hard > kOpenFilesScarce
                              ? "ulimit -n 65536 where jobctl and the daemons start"
                              : "raise nofile in /etc/security/limits.conf, LimitNOFILE of a "
                                "systemd unit";
  if (limit.soft < kOpenFilesLeast)
    return {Grade::kBroken, StrCat(found, ": daemons and data loaders run out of them"), fix};
  if (limit.soft < kOpenFilesScarce) return {Grade::kWarning, found, fix};
  return {Grade::kGood, found};
}

Verdict JudgeProcesses(const MachineFacts& facts) {
  const LimitFacts& limit = facts.limits.processes;
  // The kernel does not limit root.
  if (facts.limits.is_root) return {Grade::kGood, "unlimited for root"};
  const std::string found = Described(limit);
  const std::string fix =
      "raise nproc in /etc/security/limits.conf; threads of all processes count";
  if (limit.soft < kProcessesLeast) return {Grade::kBroken, found, fix};
  if (limit.soft < kProcessesScarce) return {Grade::kWarning, found, fix};
  return {Grade::kGood, found};
}

Verdict JudgeLockedMemory(const MachineFacts& facts) {
  const LimitFacts& limit = facts.limits.locked_memory;
  const std::string found = Described(limit, true);
  if (facts.devices.has_infiniband && limit.hard != kUnlimited) {
    return {Grade::kBroken, StrCat(found, ": InfiniBand cannot register memory"),
            "raise memlock in /etc/security/limits.conf to unlimited, LimitMEMLOCK of a systemd "
            "unit"};
  }
  return {Grade::kGood, found};
}

Verdict JudgeCoreFiles(const MachineFacts& facts) {
  const LimitFacts& limit = facts.limits.core_file;
  if (limit.soft == 0) return {Grade::kGood, "none is written (ulimit -c unlimited to debug)"};
  return {Grade::kGood, StrCat(Described(limit, true), " each")};
}

Verdict JudgeKilling(const MachineFacts& facts) {
  const MemoryFacts& memory = facts.memory;
  const std::string found = StrCat(
      "ranks are killed by ", memory.kill_level,
      memory.kills_attributed ? ""
                              : "; deaths for lack of memory cannot be distinguished from others");
  if (!memory.kill_level.starts_with("cgroup")) {
    return {Grade::kWarning, found,
            "start the worker as a systemd service with Delegate=yes (docs/operating.md)"};
  }
  return {Grade::kGood, found};
}

Verdict JudgeOutOfMemory(const MachineFacts& facts) {
  const MemoryFacts& memory = facts.memory;
  const std::string fix =
      "dmesg -T | grep -i 'killed process'; give ranks smaller batches or fewer loader workers";
  if (memory.last_kill_ago_s.has_value() && *memory.last_kill_ago_s < kRecentS) {
    return {Grade::kWarning,
            StrCat("the kernel killed ", memory.last_killed, " for it ",
                   common::HumanDuration(*memory.last_kill_ago_s * 1000), " ago"),
            fix};
  }
  const int64_t kills = memory.kills.value_or(0);
  if (kills == 0) return {Grade::kGood, "no process was killed for it since boot"};
  const std::string found =
      StrCat(common::Counted(static_cast<uint64_t>(kills), "process kill"), " since boot");
  if (memory.log_readable) return {Grade::kGood, StrCat(found, ", none within the hour")};
  return {Grade::kWarning, StrCat(found, "; when is only visible to root"), StrCat("sudo ", fix)};
}

}  // namespace muster::client::doctor
