#include "coordinator/local/segment_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/segments/scan.h"
#include "coordinator/segments/writer.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kWindowBytes = 1 << 20;

// A file by its path below the data directory: "logs/7/0/rank-3.stdout.seg",
// "metrics/7/0.d/0000008388608.seg".
struct SegmentPath {
  SegmentId id;
  std::string base;  // below the data directory
  uint64_t first_offset = 0;
};

std::optional<SegmentPath> ParseSegmentPath(const std::string& path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  SegmentPath found;
  if (parts.back().ends_with(".seg") && parts[parts.size() - 2].ends_with(".d")) {
    const std::string number = parts.back().substr(0, parts.back().size() - 4);
    if (!absl::SimpleAtoi(number, &found.first_offset)) return std::nullopt;
    parts.pop_back();
  } else if (!parts.back().ends_with(".seg")) {
    return std::nullopt;
  }
  parts.back() = std::string(SegmentBase(parts.back()));
  found.base = absl::StrJoin(parts, "/");
  LogKey key;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[1], &key.job)) return std::nullopt;
  if (parts[0] == "logs" && parts.size() == 4 && absl::SimpleAtoi(parts[2], &key.attempt) &&
      ParseStreamName(parts[3], &key)) {
    found.id = SegmentIdOf(key);
    return found;
  }
  found.id = {.kind = SegmentKind::kMetrics, .job = key.job};
  const bool is_metrics =
      parts[0] == "metrics" && parts.size() == 3 && absl::SimpleAtoi(parts[2], &found.id.attempt);
  return is_metrics ? std::optional(found) : std::nullopt;
}

// Finds the parts of one segment file that are not sound records.
class FileCheck {
 public:
  FileCheck(const Paths& paths, std::string path, const SegmentFound& found)
      : path_(std::move(path)),
        scan_(OpenSegmentFile(paths.Root() + "/" + path_), kWindowBytes),
        found_(found) {}

  absl::Status Run(const SegmentId& id);
  bool IsSound() const { return is_sound_; }

 private:
  void Say(uint64_t offset, uint64_t bytes, std::string what) {
    is_sound_ = false;
    found_({path_, offset, bytes, std::move(what)});
  }

  const std::string path_;
  SegmentScan scan_;
  const SegmentFound& found_;
  bool is_sound_ = true;
};

absl::Status FileCheck::Run(const SegmentId& id) {
  ASSIGN_OR_RETURN(const auto head, scan_.Head());
  if (!head.has_value()) {
    Say(0, scan_.TotalBytes(), "is not a segment, or its head is damaged: none of it can be read");
    return absl::OkStatus();
  }
  if (head->id != id) {
    Say(0, scan_.TotalBytes(), "belongs to another stream");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto trailer, scan_.Trailer());
  uint64_t sound_until = scan_.Position();
  while (true) {
    ASSIGN_OR_RETURN(const auto record, scan_.Next());
    if (!record.has_value()) break;
    if (record->position > sound_until) {
      Say(sound_until, record->position - sound_until, "damaged");
    }
    const absl::StatusOr<std::string> body = scan_.Body(*record);
    if (absl::IsDataLoss(body.status())) {
      Say(record->position + kRecordHeadBytes, record->length, "damaged");
    } else {
      RETURN_IF_ERROR(body.status());
    }
    sound_until = scan_.Position();
  }
  if (scan_.UnreadableBytes() > 0) {
    Say(sound_until, scan_.UnreadableBytes(),
        trailer.has_value() ? "damaged" : "a torn or damaged record at its end");
  }
  ASSIGN_OR_RETURN(const bool has_index, scan_.HasSoundIndex());
  if (trailer.has_value() && !has_index) {
    Say(trailer->index_position, trailer->entries * kIndexEntryBytes, "its index is damaged");
  }
  return absl::OkStatus();
}

using EachSegment =
    std::function<absl::Status(const std::string& path, const SegmentPath& segment)>;

SegmentFinding UnreadableFinding(const std::string& path, const std::string& why) {
  return {.path = path, .what = StrCat("cannot be read: ", why), .is_unreadable = true};
}

// Reports unreadable segments to `unreadable` and continues with the others.
absl::Status ForEachSegment(const Paths& paths, SegmentTotals* totals, const EachSegment& each,
                            const SegmentFound& unreadable) {
  const auto say = [&](const std::string& path, const absl::Status& why) {
    unreadable(UnreadableFinding(path, std::string(why.message())));
    return absl::OkStatus();
  };
  const auto odd = [&](const std::string& path) {
    if (ParseSegmentPath(path).has_value()) {
      unreadable(UnreadableFinding(path, "it is a symbolic link, a FIFO, a socket or a device"));
    }
    return absl::OkStatus();
  };
  const auto directory = [&](const std::string& path) {
    if (path.ends_with(".seg")) unreadable(UnreadableFinding(path, "it is a directory"));
  };
  for (const bool is_logs : {true, false}) {
    const auto visit = [&](const TreeFile& file) -> absl::Status {
      ++(is_logs ? totals->log_files : totals->metric_files);
      (is_logs ? totals->log_bytes : totals->metric_bytes) += file.size;
      const auto segment = ParseSegmentPath(file.path);
      if (!segment.has_value()) return absl::OkStatus();
      const absl::Status status = each(file.path, *segment);
      return status.ok() || IsShortage(status) ? status : say(file.path, status);
    };
    RETURN_IF_ERROR(
        WalkFiles(paths.Root(), is_logs ? "logs" : "metrics",
                  {.file = visit, .odd = odd, .directory = directory, .unreadable = say}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSegments(const Paths& paths, const SegmentFound& found, SegmentTotals* totals) {
  const auto check = [&](const std::string& path, const SegmentPath& segment) {
    return FileCheck(paths, path, found).Run(segment.id);
  };
  return ForEachSegment(paths, totals, check, found);
}

absl::Status RepairSegments(const Paths& paths, const SegmentFound& changed,
                            SegmentTotals* totals) {
  std::vector<std::pair<std::string, SegmentPath>> damaged;
  std::map<std::string, uint64_t> lost;
  const auto check_one = [&](const std::string& path, const SegmentPath& segment) {
    const SegmentFound count = [&](const SegmentFinding& finding) { lost[path] += finding.bytes; };
    FileCheck check(paths, path, count);
    absl::Status status = check.Run(segment.id);
    if (status.ok() && !check.IsSound()) damaged.emplace_back(path, segment);
    return status;
  };
  const auto leave = [&](SegmentFinding finding) {
    finding.what = StrCat("left as it is: ", finding.what);
    changed(finding);
  };
  RETURN_IF_ERROR(ForEachSegment(paths, totals, check_one, leave));
  for (const auto& [path, segment] : damaged) {
    const absl::Status mended = SegmentWriter::Mend(SegmentFiles(paths.Root() + "/" + segment.base),
                                                    segment.id, segment.first_offset);
    if (IsShortage(mended)) return mended;
    if (!mended.ok()) {
      leave(UnreadableFinding(path, std::string(mended.message())));
      continue;
    }
    changed({path, 0, lost[path], "rewritten with all that could be read; the rest is a gap"});
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
