// rank_report: see the header.
#include "worker/rank_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/files.h"
#include "common/limits.h"
#include "common/text.h"
#include "worker/json_lines.h"

namespace muster::worker {
namespace {

constexpr size_t kErrorFileBytesMax = 1 << 20;

}  // namespace

std::string LastLines(const Paths& paths, const AttemptKey& key, uint32_t rank) {
  const absl::StatusOr<common::UniqueFd> file =
      common::OpenRegular(paths.Spool(key, rank, "stderr"), O_RDONLY | O_NOFOLLOW);
  struct stat info {};
  if (!file.ok() || fstat(file->get(), &info) != 0) return "";
  const off_t size = std::min<off_t>(info.st_size, common::kLastLinesBytesMax);
  std::string tail(static_cast<size_t>(size), '\0');
  const ssize_t count = pread(file->get(), tail.data(), tail.size(), info.st_size - size);
  tail.resize(count > 0 ? static_cast<size_t>(count) : 0);
  tail.erase(0, std::min(tail.find_last_of('\0') + 1, tail.size()));  // a hole: dropped or trimmed
  if (size < info.st_size) {
    const size_t line = tail.find('\n');
    if (line != std::string::npos && line + 1 < tail.size()) tail.erase(0, line + 1);
  }
  std::string text = common::Printable(tail, /*keep_layout=*/true);
  if (text.size() > common::kLastLinesBytesMax) {
    text.erase(0, text.size() - common::kLastLinesBytesMax);
  }
  return text;
}

v1::RankExit ReportFacts(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
                         const RankExited& exit) {
  v1::RankExit report;
  report.set_rank(exit.rank);
  report.set_node(launch.part().node());
  report.set_exit_code(exit.exit_code);
  report.set_signal(exit.signal);
  report.set_out_of_memory(exit.out_of_memory);
  report.set_ended_ms(exit.wall_ms);
  report.set_since_start_us(exit.since_start_us);
  report.set_stopped_by_us(exit.stopped);
  for (const common::RankLaunch& rank : shim_launch.ranks) {
    if (rank.rank != exit.rank) continue;
    report.set_local_rank(rank.local_rank);
    if (exit.exec_errno != 0) {
      report.set_launch_errno(exit.exec_errno);
      report.set_launch_error(DescribeLaunchError(exit, rank, launch.part().node()));
    }
  }
  return report;
}

void AddWords(const Paths& paths, const AttemptKey& key, v1::RankExit* report) {
  const auto error_file =
      common::ReadFile(paths.ErrorFile(key, report->rank()), kErrorFileBytesMax);
  if (error_file.ok()) report->set_error_message(ErrorFileMessage(*error_file));
  if (absl::IsInvalidArgument(error_file.status())) {
    report->set_error_message("(its error file is no regular file: nothing was read from it)");
  }
  report->set_last_lines(LastLines(paths, key, report->rank()));
}

}  // namespace muster::worker
