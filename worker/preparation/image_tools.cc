#include "worker/preparation/image_tools.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "worker/containers/container_tools.h"
#include "worker/preparation/code_cache.h"

namespace muster::worker {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

constexpr int64_t kLookEveryMs = 1'000;
constexpr int64_t kLookShare = 10;  // checks take at most one part in this many of the time
// limit: images: such a command without anything new; it is killed
constexpr int64_t kStallMs = 10 * 60'000;
constexpr int64_t kLateMs = 10'000;
constexpr uint64_t kSpareFiles = 4'096;
constexpr size_t kToolWordsMax = 400;  // of what a tool printed
// Errors that a registry would repeat, by its protocol.
constexpr const char* kFinalWords[] = {"manifest unknown", "name unknown", "unauthorized",
                                       "access to the resource is denied"};

// The last line that is not empty: tools print their reason last.
std::string LastLine(const std::string& text) {
  std::string last;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    last = std::string(absl::StripAsciiWhitespace(line));
  }
  if (last.size() > kToolWordsMax) last.erase(0, last.size() - kToolWordsMax);
  return common::Printable(last);
}

// Why the disk has no room; empty: it has.
std::string FullDisk(const std::string& directory) {
  struct statvfs disk {};
  if (directory.empty() || statvfs(directory.c_str(), &disk) != 0) return {};
  if (uint64_t{disk.f_bavail} * disk.f_frsize < kCacheSpareBytes) return "its disk is full";
  if (disk.f_files > 0 && disk.f_favail < kSpareFiles) return "its disk has no inodes left";
  return {};
}

// Watches progress and disk use while a tool runs.
class Watch {
 public:
  Watch(const ToolRun& run, const Progress& progress) : run_(run), progress_(progress) {}

  void Look() {
    if (progress_.stopped()) stop = true;
    const int64_t now_ms = common::MonotonicMs();
    if (run_.grows.empty() || now_ms < next_ms_) return;
    if (std::string full = FullDisk(run_.grows); !full.empty()) return Stop(std::move(full));
    const uint64_t bytes = TreeBytes(run_.grows);
    // If this check is late, the whole node was held up, the tool included.
    idle_ms_ = bytes != bytes_ ? 0 : idle_ms_ + std::min(now_ms - looked_ms_, pause_ms_ + kLateMs);
    bytes_ = bytes;
    looked_ms_ = now_ms;
    if (bytes > run_.bytes_max)
      return Stop(StrCat("it has more than ", common::HumanBytes(run_.bytes_max)));
    is_stalled = idle_ms_ > kStallMs;
    if (is_stalled) stop = true;
    if (!run_.says.empty()) progress_.say(StrCat(run_.says, ": ", common::HumanBytes(bytes)));
    const int64_t took_ms = common::MonotonicMs() - now_ms;
    pause_ms_ = std::max(kLookEveryMs, kLookShare * took_ms);
    next_ms_ = now_ms + pause_ms_;
  }

  std::atomic<bool> stop = false;
  std::string too_much;
  bool is_stalled = false;

 private:
  void Stop(std::string why) {
    too_much = std::move(why);
    stop = true;
  }

  const ToolRun& run_;
  const Progress& progress_;
  int64_t looked_ms_ = common::MonotonicMs();
  int64_t pause_ms_ = kLookEveryMs;
  int64_t next_ms_ = looked_ms_ + pause_ms_;
  int64_t idle_ms_ = 0;
  uint64_t bytes_ = 0;
};

absl::Status Judge(const ToolRun& run, const CommandOutput& output, const Watch& watch) {
  const std::string tool = fs::path(run.words.front()).filename();
  const auto too_much = [&](const std::string& why) {
    return absl::ResourceExhaustedError(StrCat(
        tool, ": ", why, "; fix: free space for it on the disk of that worker's --state-dir"));
  };
  if (!watch.too_much.empty()) return too_much(watch.too_much);
  if (watch.is_stalled) {
    return absl::UnavailableError(StrCat(tool, ": no data for ", common::HumanDuration(kStallMs)));
  }
  if (watch.stop) return StoppedStatus();
  if (output.problem.empty()) return absl::OkStatus();
  if (const std::string full = FullDisk(run.grows); !full.empty()) return too_much(full);
  const std::string said = LastLine(output.err);
  const std::string why =
      StrCat(tool, ": ", output.problem, said.empty() ? "" : StrCat(": ", said));
  const bool is_final =
      std::any_of(std::begin(kFinalWords), std::end(kFinalWords),
                  [&](const char* words) { return absl::StrContains(output.err, words); });
  return is_final ? absl::NotFoundError(why) : absl::UnavailableError(why);
}

}  // namespace

uint64_t TreeBytes(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    if (lstat(at->path().c_str(), &info) == 0) bytes += uint64_t(info.st_blocks) * 512;
  }
  return bytes;
}

ToolEnd RunTool(const ToolRun& run, const Progress& progress) {
  Watch watch(run, progress);
  BoundedCommand command = ToolCommand(run.words);
  if (run.output_max > 0) command.bytes_max = run.output_max;
  if (run.timeout_ms > 0) command.timeout_ms = run.timeout_ms;
  command.stop = &watch.stop;
  command.tick = [&] { watch.Look(); };
  CommandOutput output = RunBounded(command);
  ToolEnd end{Judge(run, output, watch), std::move(output.out), output.exit_code >= 0};
  return end;
}

}  // namespace muster::worker
