#include "coordinator/base/data_lock.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kRetryPause{10};

}  // namespace

absl::StatusOr<common::UniqueFd> LockDataDirectory(const std::string& path,
                                                   std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  absl::StatusOr<common::UniqueFd> lock = common::LockFile(path);
  while (!lock.ok() && absl::IsFailedPrecondition(lock.status()) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kRetryPause);
    lock = common::LockFile(path);
  }
  if (!lock.ok() && absl::IsFailedPrecondition(lock.status())) {
    const int holder = LockHolder(path);
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1604",
         .what = common::StrCat("another muster-coordinator",
                                holder > 0 ? common::StrCat(" (pid ", holder, ")") : std::string(),
                                " already uses this data directory (", path, " is locked)"),
         .fix = "stop it, or use another --data-dir"});
  }
  if (!lock.ok()) {
    return common::MakeProblem(lock.status().code(),
                               {.code = "JC1601",
                                .what = "the data directory cannot be locked",
                                .why = std::string(lock.status().message()),
                                .fix = "check what lies there, and the directory's owner"});
  }
  const std::string text = common::StrCat(getpid(), "\n");
  if (ftruncate(lock->get(), 0) != 0 ||
      pwrite(lock->get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    // Only the lock counts; the text is informational.
    return lock;
  }
  return lock;
}

int LockHolder(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return 0;
  const std::string file = absl::StrFormat("%02x:%02x:%u", major(info.st_dev), minor(info.st_dev),
                                           static_cast<uint64_t>(info.st_ino));
  const absl::StatusOr<std::string> locks = common::ReadFile("/proc/locks");
  bool is_locked = false;
  if (locks.ok()) {
    // "3: FLOCK  ADVISORY  WRITE 4711 fe:01:131 0 EOF"
    for (const auto& line : absl::StrSplit(*locks, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
      if (words.size() < 6 || words[5] != file) continue;
      is_locked = true;
      int pid = 0;
      if (absl::SimpleAtoi(words[4], &pid) && pid > 0) return pid;
    }
  }
  // Some file systems show a different device number there: try the lock itself.
  if (!is_locked && !absl::IsFailedPrecondition(common::LockFile(path).status())) return 0;
  const absl::StatusOr<std::string> text = common::ReadFile(path);
  int pid = 0;
  if (text.ok() && absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &pid)) return pid;
  return 0;
}

}  // namespace muster::coordinator
