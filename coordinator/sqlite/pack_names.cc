#include "coordinator/sqlite/pack_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kMergedKeptMs = 24 * 3'600'000;
// The lane's columns are the first parameters of every statement.
constexpr char kOfLane[] = " job = ?1 AND kind = ?2 AND attempt = ?3 AND node = ?4";

Statement& BindLane(Statement& statement, const PackLane& lane) {
  return statement.Bind(1, static_cast<int64_t>(lane.job))
      .Bind(2, static_cast<int64_t>(lane.kind))
      .Bind(3, lane.attempt)
      .BindText(4, lane.node);
}

// And of one leader's packs: the next two.
Statement& BindRun(Statement& statement, const PackLane& lane, const PackTerm& term) {
  return BindLane(statement, lane).Bind(5, static_cast<int64_t>(term.epoch)).BindText(6, term.life);
}

PackLane LaneOf(Statement& row, PackKind kind, uint64_t job) {
  return {.kind = kind,
          .job = job,
          .attempt = static_cast<uint32_t>(row.Integer(0)),
          .node = std::string(row.Bytes(1))};
}

void AddRun(Statement& row, LanePacks& packs) {
  packs.runs.push_back(
      {.term = {.epoch = static_cast<uint64_t>(row.Integer(2)), .life = std::string(row.Bytes(3))},
       .first = static_cast<uint64_t>(row.Integer(4)),
       .last = static_cast<uint64_t>(row.Integer(5))});
  const auto first_rank = static_cast<uint32_t>(row.Integer(6));
  packs.first_rank = packs.runs.size() == 1 ? first_rank : std::min(packs.first_rank, first_rank);
  packs.last_rank = std::max(packs.last_rank, static_cast<uint32_t>(row.Integer(7)));
  packs.bytes += static_cast<uint64_t>(row.Integer(8));
  packs.note = std::string(row.Bytes(9));
}

// Of one job; `only`: of one of its lanes.
absl::StatusOr<std::vector<LanePacks>> LanesIn(Database& database, PackKind kind, uint64_t job,
                                               std::optional<uint32_t> attempt,
                                               const PackLane* only = nullptr) {
  const std::string where =
      StrCat(" WHERE job = ?1 AND kind = ?2", attempt.has_value() ? " AND attempt = ?3" : "",
             only != nullptr ? " AND node = ?4" : "");
  const auto bind = [&](Statement& rows) {
    rows.Bind(1, static_cast<int64_t>(job)).Bind(2, static_cast<int64_t>(kind));
    if (attempt.has_value()) rows.Bind(3, *attempt);
    if (only != nullptr) rows.BindText(4, only->node);
  };
  std::map<PackLane, LanePacks> lanes;
  ASSIGN_OR_RETURN(
      Statement runs,
      database.Prepare(StrCat("SELECT attempt, node, epoch, life, first, last, first_rank, "
                              "last_rank, bytes, note FROM packs",
                              where, " ORDER BY attempt, node, epoch, life")));
  bind(runs);
  RETURN_IF_ERROR(ForRows(runs, [&](Statement& row) {
    AddRun(row, lanes[LaneOf(row, kind, job)]);
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(Statement merged,
                   database.Prepare(StrCat("SELECT attempt, node, place, name, level, bytes FROM "
                                           "merged_packs",
                                           where, " ORDER BY attempt, node, place")));
  bind(merged);
  RETURN_IF_ERROR(ForRows(merged, [&](Statement& row) {
    lanes[LaneOf(row, kind, job)].merged.push_back(
        {.place = static_cast<uint64_t>(row.Integer(2)),
         .name = std::string(row.Bytes(3)),
         .level = static_cast<uint32_t>(row.Integer(4)),
         .bytes = static_cast<uint64_t>(row.Integer(5))});
    return absl::OkStatus();
  }));
  std::vector<LanePacks> found;
  for (auto& [lane, packs] : lanes) {
    packs.lane = lane;
    found.push_back(std::move(packs));
  }
  return found;
}

absl::StatusOr<std::optional<LanePacks>> FindIn(Database& database, const PackLane& lane) {
  ASSIGN_OR_RETURN(std::vector<LanePacks> found,
                   LanesIn(database, lane.kind, lane.job, lane.attempt, &lane));
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

bool IsIn(const LanePacks& packs, const std::string& name) {
  if (std::any_of(packs.merged.begin(), packs.merged.end(),
                  [&](const MergedPack& merged) { return merged.name == name; })) {
    return true;
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(name.substr(name.rfind('-') + 1), &number)) return false;
  return std::any_of(packs.runs.begin(), packs.runs.end(), [&](const PackRun& run) {
    return number >= run.first && number <= run.last && name == PackName(run.term, number);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackNames>> SqlitePackNames::Open(const Paths& paths,
                                                                 std::shared_ptr<WriteTurns> turns,
                                                                 const common::Clock& clock,
                                                                 std::string prefix) {
  std::unique_ptr<SqlitePackNames> names(new SqlitePackNames(turns, clock, std::move(prefix)));
  ASSIGN_OR_RETURN(names->writer_, OpenForTurns(paths.Database(), *turns));
  ASSIGN_OR_RETURN(names->reader_, OpenReader(paths.Database()));
  return names;
}

absl::StatusOr<std::vector<LanePacks>> SqlitePackNames::Lanes(
    PackKind kind, uint64_t job, std::optional<uint32_t> attempt) const {
  std::lock_guard lock(mutex_);
  const OneMoment moment(*reader_);
  return LanesIn(*reader_, kind, job, attempt);
}

absl::StatusOr<std::optional<LanePacks>> SqlitePackNames::Find(const PackLane& lane) const {
  std::lock_guard lock(mutex_);
  const OneMoment moment(*reader_);
  return FindIn(*reader_, lane);
}

absl::StatusOr<uint64_t> SqlitePackNames::BytesOf(PackKind kind, uint64_t job) const {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(
      Statement sum,
      reader_->Prepare("SELECT coalesce(sum(bytes), 0) FROM packs WHERE job = ?1 AND kind = ?2"));
  RETURN_IF_ERROR(
      sum.Bind(1, static_cast<int64_t>(job)).Bind(2, static_cast<int64_t>(kind)).Step().status());
  return static_cast<uint64_t>(sum.Integer(0));
}

absl::Status SqlitePackNames::Record(const std::vector<RecordedPack>& packs) {
  std::lock_guard lock(writing_);
  return turns_->Write(*writer_, [&]() -> absl::Status {
    for (const RecordedPack& pack : packs) RETURN_IF_ERROR(RecordOne(pack));
    return absl::OkStatus();
  });
}

absl::Status SqlitePackNames::RecordOne(const RecordedPack& pack) {
  ASSIGN_OR_RETURN(Statement find, writer_->Prepare(StrCat("SELECT last FROM packs WHERE", kOfLane,
                                                           " AND epoch = ?5 AND life = ?6")));
  ASSIGN_OR_RETURN(const bool has_run, BindRun(find, pack.lane, pack.term).Step());
  const uint64_t last = has_run ? static_cast<uint64_t>(find.Integer(0)) : 0;
  if (pack.number <= last) return absl::OkStatus();
  if (pack.number != last + 1)
    return absl::AbortedError(StrCat("pack ", pack.number, " does not follow ", last));
  if (!has_run) {
    ASSIGN_OR_RETURN(const std::optional<LanePacks> before, FindIn(*writer_, pack.lane));
    ASSIGN_OR_RETURN(Statement put,
                     writer_->Prepare("INSERT INTO packs(job, kind, attempt, node, epoch, life, "
                                      "first, last, first_rank, last_rank, bytes, note) "
                                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6, 1, 1, ?7, ?8, ?9, ?10)"));
    return BindRun(put, pack.lane, pack.term)
        .Bind(7, pack.first_rank)
        .Bind(8, pack.last_rank)
        .Bind(9, static_cast<int64_t>(pack.bytes))
        .BindBlob(10, pack.note.empty() && before.has_value() ? before->note : pack.note)
        .Run();
  }
  // Only what differs is written, and goes to the other coordinators.
  ASSIGN_OR_RETURN(
      Statement raise,
      writer_->Prepare(StrCat("UPDATE packs SET last = ?7, bytes = bytes + ?8, first_rank = "
                              "min(first_rank, ?9), last_rank = max(last_rank, ?10), note = CASE "
                              "WHEN ?11 = x'' THEN note ELSE ?11 END WHERE",
                              kOfLane, " AND epoch = ?5 AND life = ?6")));
  return BindRun(raise, pack.lane, pack.term)
      .Bind(7, static_cast<int64_t>(pack.number))
      .Bind(8, static_cast<int64_t>(pack.bytes))
      .Bind(9, pack.first_rank)
      .Bind(10, pack.last_rank)
      .BindBlob(11, pack.note)
      .Run();
}

absl::Status SqlitePackNames::Merge(const PackMerge& merge) {
  bool is_current = false;
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(is_current, IsCurrent(merge));
    return is_current ? Replace(merge) : Doom(merge.lane, merge.made.name);
  }));
  return is_current ? absl::OkStatus() : absl::AbortedError("the lane has other packs by now");
}

absl::StatusOr<bool> SqlitePackNames::IsCurrent(const PackMerge& merge) const {
  ASSIGN_OR_RETURN(const std::optional<LanePacks> now, FindIn(*writer_, merge.lane));
  if (!now.has_value()) return false;
  for (const MergedPack& merged : merge.merged) {
    if (!IsIn(*now, merged.name)) return false;
  }
  for (const PackRun& run : merge.runs) {
    const auto same = std::find_if(now->runs.begin(), now->runs.end(), [&](const PackRun& each) {
      return each.term == run.term && each.first == run.first && each.last >= run.last;
    });
    if (same == now->runs.end()) return false;
  }
  return true;
}

absl::Status SqlitePackNames::Replace(const PackMerge& merge) {
  // A state that is restored from a backup of the last day still finds what was merged; a quota frees space at once.
  const int64_t kept_ms = merge.made.level == 0 ? 0 : kMergedKeptMs;
  for (const MergedPack& merged : merge.merged) {
    ASSIGN_OR_RETURN(Statement remove, writer_->Prepare(StrCat("DELETE FROM merged_packs WHERE",
                                                               kOfLane, " AND place = ?5")));
    RETURN_IF_ERROR(BindLane(remove, merge.lane).Bind(5, static_cast<int64_t>(merged.place)).Run());
    RETURN_IF_ERROR(Doom(merge.lane, merged.name, kept_ms));
  }
  for (const PackRun& run : merge.runs) {
    ASSIGN_OR_RETURN(Statement raise,
                     writer_->Prepare(StrCat("UPDATE packs SET first = ?7 WHERE", kOfLane,
                                             " AND epoch = ?5 AND life = ?6")));
    RETURN_IF_ERROR(
        BindRun(raise, merge.lane, run.term).Bind(7, static_cast<int64_t>(run.last + 1)).Run());
    for (uint64_t number = run.first; number <= run.last; ++number)
      RETURN_IF_ERROR(Doom(merge.lane, PackName(run.term, number), kept_ms));
  }
  RETURN_IF_ERROR(Free(merge.lane, merge.freed));
  ASSIGN_OR_RETURN(Statement put,
                   writer_->Prepare("INSERT INTO merged_packs(job, kind, attempt, node, place, "
                                    "name, level, bytes) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
  return BindLane(put, merge.lane)
      .Bind(5, static_cast<int64_t>(merge.made.place))
      .BindText(6, merge.made.name)
      .Bind(7, merge.made.level)
      .Bind(8, static_cast<int64_t>(merge.made.bytes))
      .Run();
}

absl::Status SqlitePackNames::Free(const PackLane& lane, uint64_t bytes) {
  std::vector<std::pair<PackTerm, uint64_t>> taken;
  ASSIGN_OR_RETURN(Statement rows,
                   writer_->Prepare(StrCat("SELECT epoch, life, bytes FROM packs WHERE", kOfLane,
                                           " ORDER BY epoch, life")));
  RETURN_IF_ERROR(ForRows(BindLane(rows, lane), [&](Statement& row) {
    const uint64_t of_row = std::min(bytes, static_cast<uint64_t>(row.Integer(2)));
    bytes -= of_row;
    taken.emplace_back(
        PackTerm{.epoch = static_cast<uint64_t>(row.Integer(0)), .life = std::string(row.Bytes(1))},
        of_row);
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(Statement lower,
                   writer_->Prepare(StrCat("UPDATE packs SET bytes = bytes - ?7 WHERE", kOfLane,
                                           " AND epoch = ?5 AND life = ?6")));
  for (const auto& [term, of_row] : taken) {
    if (of_row == 0) continue;
    RETURN_IF_ERROR(BindRun(lower, lane, term).Bind(7, static_cast<int64_t>(of_row)).Run());
  }
  return absl::OkStatus();
}

absl::Status SqlitePackNames::Doom(const PackLane& lane, const std::string& name, int64_t kept_ms) {
  ASSIGN_OR_RETURN(Statement doom,
                   writer_->Prepare("INSERT OR IGNORE INTO doomed_objects VALUES(?1, ?2)"));
  const std::string key = PackKey(prefix_, lane, name);
  return doom.BindText(1, key).Bind(2, clock_.Read().lived_ms + kept_ms).Run();
}

absl::StatusOr<std::vector<uint64_t>> SqlitePackNames::Jobs(PackKind kind) const {
  std::set<uint64_t> jobs;
  std::lock_guard lock(mutex_);
  for (const char* table : {"packs", "merged_packs"}) {
    // From job to job, not over all rows of each.
    ASSIGN_OR_RETURN(Statement rows, reader_->Prepare(StrCat(
                                         "WITH RECURSIVE each_job(id) AS (SELECT min(job) FROM ",
                                         table, " UNION ALL SELECT (SELECT min(job) FROM ", table,
                                         " WHERE job > id) FROM each_job WHERE id IS NOT NULL) "
                                         "SELECT id FROM each_job WHERE id IS NOT NULL AND EXISTS "
                                         "(SELECT 1 FROM ",
                                         table, " WHERE job = id AND kind = ?1)")));
    rows.Bind(1, static_cast<int64_t>(kind));
    RETURN_IF_ERROR(ForRows(rows, [&](Statement& row) {
      jobs.insert(static_cast<uint64_t>(row.Integer(0)));
      return absl::OkStatus();
    }));
  }
  return std::vector<uint64_t>(jobs.begin(), jobs.end());
}

absl::StatusOr<bool> SqlitePackNames::DoomSome(PackKind kind, uint64_t job) {
  bool had_some = false;
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<LanePacks> lanes,
                     LanesIn(*writer_, kind, job, std::nullopt));
    had_some = !lanes.empty();
    return had_some ? DoomLane(lanes.front()) : absl::OkStatus();
  }));
  return had_some;
}

absl::Status SqlitePackNames::DoomLane(const LanePacks& packs) {
  for (const MergedPack& merged : packs.merged) RETURN_IF_ERROR(Doom(packs.lane, merged.name));
  for (const PackRun& run : packs.runs) {
    for (uint64_t number = run.first; number <= run.last; ++number)
      RETURN_IF_ERROR(Doom(packs.lane, PackName(run.term, number)));
  }
  for (const char* table : {"packs", "merged_packs"}) {
    ASSIGN_OR_RETURN(Statement remove,
                     writer_->Prepare(StrCat("DELETE FROM ", table, " WHERE", kOfLane)));
    RETURN_IF_ERROR(BindLane(remove, packs.lane).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SqlitePackNames::Unknown(
    const std::vector<std::string>& keys) const {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement doomed,
                   reader_->Prepare("SELECT 1 FROM doomed_objects WHERE key = ?1"));
  std::map<PackLane, std::optional<LanePacks>> lanes;
  std::vector<std::string> unknown;
  for (const std::string& key : keys) {
    const std::optional<PackAddress> address = ParsePackKey(prefix_, key);
    if (!address.has_value()) continue;  // not ours
    auto found = lanes.find(address->lane);
    if (found == lanes.end()) {
      ASSIGN_OR_RETURN(std::optional<LanePacks> packs, FindIn(*reader_, address->lane));
      found = lanes.emplace(address->lane, std::move(packs)).first;
    }
    if (found->second.has_value() && IsIn(*found->second, address->name)) continue;
    ASSIGN_OR_RETURN(const bool is_doomed, doomed.BindText(1, key).Step());
    doomed.Reset();
    if (!is_doomed) unknown.push_back(key);
  }
  return unknown;
}

}  // namespace muster::coordinator
