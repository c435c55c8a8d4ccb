#include "coordinator/sqlite/replay.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/crc32c.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "coordinator/sqlite/schema.h"
#include "coordinator/sqlite/snapshot_rows.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr size_t kHighWaterBytesMax = 1'024;

constexpr size_t kHighWaterDigits = 20;
constexpr size_t kSumBytes = 10;  // " %08x\n"

// Without it, the loss of the database's end would stay unnoticed.
absl::Status UnusableHighWater(const Paths& paths, const std::string& why) {
  return MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what = StrCat(paths.HighWater(), " is damaged, so it is unknown whether ", paths.Database(),
                      " is whole"),
       .why = why,
       .fix = StrCat("muster-coordinator check --data-dir ", paths.Root(),
                     ", then repair, which writes it again from the database; if jobs are missing "
                     "then, restore a backup")});
}

class Replayer {
 public:
  Replayer(Database& database, const std::string& path, const ReplayCallbacks& sink)
      : database_(database), path_(path), sink_(sink) {}

  absl::StatusOr<uint64_t> Run() {
    ASSIGN_OR_RETURN(const uint64_t after, Snapshot());
    return Events(after);
  }

 private:
  absl::Status Damaged(const std::string& finding) const { return DamagedDatabase(path_, finding); }

  absl::Status Newer(uint32_t format) const {
    return MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1603",
         .what = StrCat(path_, " was written by a newer muster-coordinator (snapshot format ",
                        format, ", this one knows up to ", kSnapshotFormat, ")"),
         .fix = "start the newer version, or use another --data-dir"});
  }

  // The last event that the snapshot covers; 0: there is none.
  absl::StatusOr<uint64_t> Snapshot() {
    ASSIGN_OR_RETURN(const std::optional<v1::Snapshot> snapshot, ReadSnapshotRows(database_));
    if (!snapshot.has_value()) return 0;
    if (snapshot->format() > kSnapshotFormat) return Newer(snapshot->format());
    if (snapshot->format() == 0)
      return Damaged(StrCat("the snapshot at event ", snapshot->seq(), " has no format"));
    RETURN_IF_ERROR(sink_.snapshot(*snapshot));
    return snapshot->seq();
  }

  absl::StatusOr<uint64_t> Events(uint64_t after) {
    ASSIGN_OR_RETURN(
        Statement events,
        database_.Prepare("SELECT seq, event FROM events WHERE seq > ?1 ORDER BY seq"));
    events.Bind(1, static_cast<int64_t>(after));
    uint64_t last = after;
    while (true) {
      ASSIGN_OR_RETURN(const bool row, events.Step());
      if (!row) return last;
      const uint64_t seq = static_cast<uint64_t>(events.Integer(0));
      if (seq != last + 1) {
        return Damaged(StrCat("event ", last + 1, " is missing (the next one is ", seq, ")"));
      }
      last = seq;
      RETURN_IF_ERROR(Event(seq, events.Bytes(1)));
    }
  }

  absl::Status Event(uint64_t seq, std::string_view bytes) {
    v1::Event event;
    if (!ParseRow(bytes, &event) || event.seq() != seq) {
      return Damaged(StrCat("event ", seq, " cannot be read"));
    }
    if (event.what_case() == v1::Event::WHAT_NOT_SET && !event.skippable()) {
      return MakeProblem(absl::StatusCode::kFailedPrecondition,
                         {.code = "JC1603",
                          .what = StrCat(path_, " holds event ", seq,
                                         " of a kind that this version does not know"),
                          .fix = "start the version of muster-coordinator that wrote it"});
    }
    return sink_.event(event);
  }

  Database& database_;
  const std::string& path_;
  const ReplayCallbacks& sink_;
};

}  // namespace

absl::StatusOr<uint64_t> ReplayDatabase(Database& database, const std::string& path,
                                        const ReplayCallbacks& sink) {
  absl::StatusOr<uint64_t> last = Replayer(database, path, sink).Run();
  if (absl::IsDataLoss(last.status()) && common::CodeOf(last.status()).empty()) {
    return DamagedDatabase(path, std::string(last.status().message()));
  }
  return last;
}

absl::StatusOr<std::optional<uint64_t>> ReadHighWater(const Paths& paths) {
  const absl::StatusOr<std::string> text = common::ReadFile(paths.HighWater(), kHighWaterBytesMax);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return UnusableHighWater(paths, common::MessageOf(text.status()));
  if (text->empty()) return std::nullopt;
  const std::string_view digits = std::string_view(*text).substr(0, kHighWaterDigits);
  const bool are_digits =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  uint64_t mark = 0;
  if (digits.size() != kHighWaterDigits || !are_digits ||
      !absl::SimpleAtoi(common::ToAbsl(digits), &mark)) {
    return UnusableHighWater(paths, "it does not begin with a number of 20 digits");
  }
  const std::string_view rest = std::string_view(*text).substr(kHighWaterDigits);
  // Without a checksum: 0.2.0 wrote it, possibly over a longer text of ours.
  const bool is_older = rest.starts_with('\n') && (rest.size() == 1 || rest.size() == kSumBytes);
  if (!is_older && *text != HighWaterText(mark)) {
    return UnusableHighWater(paths, "its checksum does not match its number");
  }
  return mark;
}

std::string HighWaterText(uint64_t event) {
  const std::string digits = absl::StrFormat("%020u", event);
  return absl::StrFormat("%s %08x\n", digits, common::Crc32c(digits));
}

// A truncated WAL looks like a database that ended earlier; only this file shows the difference.
absl::Status CheckHighWater(const Paths& paths, uint64_t last_event) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> mark, ReadHighWater(paths));
  if (!mark.has_value() || *mark <= last_event) return absl::OkStatus();
  return MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what = StrCat(paths.Database(), " ends at event ", last_event, ", but event ", *mark,
                      " was acknowledged: muster.db or muster.db-wal was truncated or replaced by "
                      "an older copy"),
       .fix = StrCat("restore the data directory from a backup, or delete ", paths.HighWater(),
                     " to continue without the lost events")});
}

}  // namespace muster::coordinator
