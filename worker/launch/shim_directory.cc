// The part of shim_client.h that needs no connection: reading an attempt's directory, and killing
// what is left of the attempt.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/files/plain_files.h"
#include "common/text/strings.h"
#include "worker/launch/shim_client.h"

namespace muster::worker {
namespace {

using common::ShimLaunch;

constexpr size_t kExitRecordBytesMax = 64 << 20;
constexpr int kStartWaitMs = 50;
constexpr int kStartWaitsMax = 20;

// These files decide whether ranks are alive, so a lack of descriptors must not be taken for their
// end. Retries for a moment.
auto Patiently(auto read) {
  auto result = read();
  for (int i = 0; absl::IsUnavailable(result.status()) && i < kStartWaitsMax; ++i) {
    poll(nullptr, 0, kStartWaitMs);
    result = read();
  }
  return result;
}

absl::StatusOr<std::string> ReadPatiently(const std::string& path, size_t max_bytes) {
  return Patiently([&path, max_bytes] { return common::ReadFile(path, max_bytes); });
}

// The processes that the shim has recorded: itself, then its ranks. Empty: none yet.
std::vector<common::KnownProcess> KnownProcesses(const std::string& attempt_dir) {
  std::string state;
  common::ReadSmallFile(common::StrCat(attempt_dir, "/", common::kShimStateName), &state);
  std::vector<common::KnownProcess> known;
  char role[32];
  int pid = 0, used = 0;
  unsigned long long start_time = 0;
  for (const char* line = state.c_str();
       std::sscanf(line, "%31s %d %llu%n", role, &pid, &start_time, &used) == 3; line += used) {
    known.push_back({pid, start_time});
  }
  return known;
}

}  // namespace

std::string LaunchPath(const std::string& attempt_dir) {
  return common::StrCat(attempt_dir, "/", common::kLaunchFileName);
}

absl::StatusOr<ShimLaunch> ReadShimLaunch(const std::string& attempt_dir) {
  const std::string path = LaunchPath(attempt_dir);
  ASSIGN_OR_RETURN(const std::string bytes, ReadPatiently(path, common::kLaunchFileBytesMax));
  ShimLaunch launch;
  if (!common::DecodeShimLaunch(bytes, &launch)) {
    return absl::DataLossError(common::StrCat(path, " is damaged or of another version"));
  }
  return launch;
}

absl::StatusOr<common::ExitRecord> ReadExitRecord(const std::string& attempt_dir) {
  const std::string path = common::StrCat(attempt_dir, "/", common::kExitRecordName);
  ASSIGN_OR_RETURN(const std::string text, ReadPatiently(path, kExitRecordBytesMax));
  common::ExitRecord record;
  if (!common::DecodeExitRecord(text, &record)) {
    return absl::DataLossError(common::StrCat(path, " is damaged"));
  }
  return record;
}

bool ShimLives(const std::string& attempt_dir) {
  const auto file =
      Patiently([&attempt_dir] { return common::OpenRegular(LaunchPath(attempt_dir), O_RDONLY); });
  if (!file.ok())
    return absl::IsUnavailable(file.status());  // if it cannot be checked, assume the worst
  return flock(file->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

common::KillResult KillAttempt(const std::string& attempt_dir, int timeout_ms) {
  const absl::StatusOr<ShimLaunch> launch = ReadShimLaunch(attempt_dir);
  if (absl::IsUnavailable(launch.status())) {
    return {.empty = false, .survivors = {}, .how = std::string(launch.status().message())};
  }
  if (!launch.ok()) return {.empty = true, .survivors = {}, .how = "empty"};
  return KillAttempt(attempt_dir, *launch, /*same_boot=*/true, timeout_ms);
}

void KillRanks(const std::string& attempt_dir, const ShimLaunch& launch) {
  const std::vector<common::KnownProcess> known = KnownProcesses(attempt_dir);
  if (known.empty()) return;  // it checks the fence before it starts ranks, so it never will
  common::KillOnce(launch.mark, {launch.cgroup_dir, launch.freezer_dir, launch.limit_dirs},
                   {known.begin() + 1, known.end()}, known.front().pid);
}

common::KillResult KillAttempt(const std::string& attempt_dir, const ShimLaunch& launch,
                               bool same_boot, int timeout_ms) {
  std::vector<common::KnownProcess> known;
  if (same_boot) known = KnownProcesses(attempt_dir);
  common::KillResult result = common::KillByMark(
      launch.mark, {launch.cgroup_dir, launch.freezer_dir, launch.limit_dirs}, known, timeout_ms);
  if (result.empty && ShimLives(attempt_dir)) {
    result.empty = false;
    result.how = "its supervisor is alive where this worker cannot see it, as in another container";
  }
  return result;
}

std::string NewAttemptMark(uint64_t job, uint32_t attempt, const std::string& node_tag) {
  uint64_t nonce = 0;
  // Up to 256 bytes are never cut short or refused: getrandom(2).
  CHECK(getrandom(&nonce, sizeof nonce, 0) == static_cast<ssize_t>(sizeof nonce));
  return absl::StrFormat("%d-%d-%016x-%s", job, attempt, nonce, node_tag);
}

std::string NodeTag(const std::string& cluster, const std::string& node) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: stable across versions of this program
  for (const char c : common::StrCat(cluster, "\n", node)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return absl::StrFormat("%016x", hash);
}

std::string DescribeLaunchError(const RankExited& exit, const common::RankLaunch& rank,
                                const std::string& node) {
  const std::string reason = std::strerror(exit.exec_errno);
  switch (exit.exec_stage) {
    case common::ExecStage::kNone:
      return {};
    case common::ExecStage::kWorkdir:
      return common::StrCat("node ", node, ": cannot enter the working directory ", rank.workdir,
                            ": ", reason,
                            "; fix: create it on that node, or use another one with --workdir");
    case common::ExecStage::kExec:
      return common::StrCat("node ", node, ": cannot execute ", rank.program, ": ", reason,
                            "; fix: correct the command, or install it on that node");
    case common::ExecStage::kFork:
      return common::StrCat("node ", node, ": cannot start a process for rank ", rank.rank, ": ",
                            reason, "; fix: raise the limit of processes and memory on that node");
    case common::ExecStage::kLimits:
      return common::StrCat("node ", node, ": rank ", rank.rank,
                            " could not enter the cgroup of its "
                            "limits: ",
                            reason, "; fix: see the worker's log on that node");
    case common::ExecStage::kAccount:
      return common::StrCat(
          "node ", node, ": rank ", rank.rank, " could not become its account: ", reason,
          "; fix: run that node's worker as root, with CAP_SETUID and CAP_SETGID");
    case common::ExecStage::kSandbox:
      return common::StrCat("node ", node, ": rank ", rank.rank,
                            " could not enter its sandbox: ", reason,
                            "; fix: restart that node's worker, which then finds out what its "
                            "kernel has");
    case common::ExecStage::kContainer:
      return common::StrCat("node ", node, ": the container of rank ", rank.rank,
                            " could not be started",
                            exit.exec_errno == ENOEXEC ? "" : common::StrCat(": ", reason),
                            "; fix: the rank's stderr has the runtime's reason: jobctl logs");
    case common::ExecStage::kSetup:
      break;
  }
  return common::StrCat("node ", node, ": cannot prepare the process of rank ", rank.rank, ": ",
                        reason, "; fix: see the worker's log on that node");
}

}  // namespace muster::worker
