// rank_report: see the header.
#include "worker/attempts/rank_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/files/files.h"
#include "common/text/text.h"
#include "worker/base/json_lines.h"
#include "worker/confinement/rank_account.h"
#include "worker/confinement/secret_files.h"

namespace muster::worker {
namespace {

constexpr size_t kErrorFileBytesMax = 1 << 20;
constexpr std::string_view kWithheld =
    "(its error is only in its log: no worker was running when it ended, and the job's secrets, "
    "which have to be hidden in it, are gone; fix: jobctl logs)";
constexpr size_t kRecordsRead = 4'096;
// Allows for the time between the message that explains a failure and the exit: an interpreter
// shuts down, its threads are joined.
constexpr int64_t kFreshMs = 5'000;

// The offset from which on a stream's bytes arrived at `since_ms` or later, according to its index;
// no further back than the records that are read. nullopt: unknown.
std::optional<uint64_t> FreshFrom(const std::string& index_path, int64_t since_ms) {
  const absl::StatusOr<common::UniqueFd> file =
      common::OpenRegular(index_path, O_RDONLY | O_NOFOLLOW);
  struct stat info {};
  if (!file.ok() || fstat(file->get(), &info) != 0) return std::nullopt;
  const size_t all = static_cast<size_t>(info.st_size) / sizeof(common::SpoolRecord);
  std::vector<common::SpoolRecord> records(std::min(all, kRecordsRead));
  const size_t bytes = records.size() * sizeof(common::SpoolRecord);
  const off_t begin = static_cast<off_t>((all - records.size()) * sizeof(common::SpoolRecord));
  if (records.empty() ||
      pread(file->get(), records.data(), bytes, begin) != static_cast<ssize_t>(bytes)) {
    return std::nullopt;
  }
  uint64_t from = records.back().offset + records.back().length;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->time_us / 1'000 < since_ms) break;
    from = std::min(from, record->offset);
  }
  return from;
}

// How many non-empty lines of `text` end in its last bytes.
uint32_t LinesThatEndIn(std::string_view text, size_t last_bytes) {
  uint32_t lines = 0;
  const size_t from = text.size() - last_bytes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (end > from && line.find_first_not_of(" \t\r") != line.npos) ++lines;
    begin = end + 1;
  }
  return lines;
}

}  // namespace

LastLines ReadLastLines(const Paths& paths, const AttemptKey& key, uint32_t rank,
                        int64_t ended_ms) {
  const absl::StatusOr<common::UniqueFd> file =
      common::OpenRegular(paths.Spool(key, rank, "stderr"), O_RDONLY | O_NOFOLLOW);
  struct stat info {};
  if (!file.ok() || fstat(file->get(), &info) != 0) return {};
  const off_t size = std::min<off_t>(info.st_size, common::kLastLinesBytesMax);
  std::string tail(static_cast<size_t>(size), '\0');
  const ssize_t count = pread(file->get(), tail.data(), tail.size(), info.st_size - size);
  tail.resize(count > 0 ? static_cast<size_t>(count) : 0);
  tail.erase(0, std::min(tail.find_last_of('\0') + 1, tail.size()));  // a hole: dropped or trimmed
  if (size < info.st_size) {
    const size_t line = tail.find('\n');
    if (line != std::string::npos && line + 1 < tail.size()) tail.erase(0, line + 1);
  }
  LastLines lines;
  const auto fresh = FreshFrom(paths.SpoolIndex(key, rank, "stderr"), ended_ms - kFreshMs);
  if (fresh) {
    const uint64_t end = static_cast<uint64_t>(info.st_size - size + count);
    const uint64_t bytes = end > *fresh ? end - *fresh : 0;
    lines.fresh = LinesThatEndIn(tail, std::min<uint64_t>(bytes, tail.size()));
  }
  lines.text = common::Printable(tail, /*keep_layout=*/true);
  if (lines.text.size() > common::kLastLinesBytesMax) {
    lines.text.erase(0, lines.text.size() - common::kLastLinesBytesMax);
  }
  return lines;
}

v1::RankExit ReportFacts(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
                         const RankExited& exit) {
  v1::RankExit report;
  report.set_rank(exit.rank);
  report.set_node(launch.part().node());
  report.set_exit_code(exit.exit_code);
  report.set_signal(exit.signal);
  report.set_out_of_memory(exit.out_of_memory);
  if (exit.memory_limit)
    report.set_memory_limit_bytes(launch.spec().shape().limits().memory_bytes());
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

void AddWords(const Paths& paths, const AttemptKey& key, size_t secrets, v1::RankExit* report) {
  const std::vector<std::string> values = SecretValues(paths, key);
  if (values.size() < secrets) return report->set_error_message(std::string(kWithheld));
  absl::StatusOr<std::string> error_file;
  {
    const ActAs acting(ReadAccount(paths.Account(key)));
    error_file = common::ReadFile(paths.ErrorFile(key, report->rank()), kErrorFileBytesMax);
  }
  if (error_file.ok()) report->set_error_message(ErrorFileMessage(*error_file));
  if (absl::IsInvalidArgument(error_file.status())) {
    report->set_error_message("(its error file is not a regular file: it was not read)");
  }
  report->set_error_message(HideValues(report->error_message(), values));
  LastLines lines = ReadLastLines(paths, key, report->rank(), report->ended_ms());
  lines.text = HideValues(std::move(lines.text), values);
  report->set_last_lines(std::move(lines.text));
  if (lines.fresh) report->set_fresh_lines(*lines.fresh);
}

}  // namespace muster::worker
