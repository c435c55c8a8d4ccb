#include "coordinator/sqlite/job_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/sqlite/archive/archive_rows.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/sqlite/schema.h"
#include "muster/v1/archive.pb.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// The smallest text above all that start with `prefix`; empty: none.
std::string AfterPrefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobIndex>> SqliteJobIndex::Open(
    const std::string& path, std::shared_ptr<const BlobStore> archive) {
  std::unique_ptr<SqliteJobIndex> index(new SqliteJobIndex(path, std::move(archive)));
  ASSIGN_OR_RETURN(index->database_,
                   OpenReader(path, "PRAGMA mmap_size=0; PRAGMA cache_size=-4096"));
  return index;
}

absl::Status SqliteJobIndex::Keys(const KeySink& sink) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement keys,
                   database_->Prepare("SELECT owner, idempotency_key, id, spec_hash FROM jobs "
                                      "WHERE idempotency_key != ''"));
  return ForRows(keys, [&](Statement& row) {
    sink(std::string(row.Bytes(0)), std::string(row.Bytes(1)),
         static_cast<uint64_t>(row.Integer(2)), static_cast<uint64_t>(row.Integer(3)));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::optional<v1::JobRecord>> SqliteJobIndex::Find(uint64_t id) {
  std::optional<ArchivedPart> part;
  {
    std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(Statement find,
                     database_->Prepare("SELECT record FROM job_records WHERE id = ?1"));
    ASSIGN_OR_RETURN(const bool row, find.Bind(1, static_cast<int64_t>(id)).Step());
    if (row) return ParseRecord(id, find.Bytes(0));
    // It may have left just now.
    ASSIGN_OR_RETURN(part, FindArchived(*database_, ArchivedKind::kJob, static_cast<int64_t>(id)));
  }
  if (!part.has_value()) return std::optional<v1::JobRecord>();
  v1::ArchivedJob archived;
  RETURN_IF_ERROR(ReadArchived(*archive_, *part, &archived));
  return ParseRecord(id, archived.record());
}

absl::StatusOr<std::optional<v1::JobRecord>> SqliteJobIndex::ParseRecord(
    uint64_t id, std::string_view bytes) const {
  v1::JobRecord record;
  if (ParseRow(bytes, &record)) return std::optional(std::move(record));
  return DamagedDatabase(path_, StrCat("the record of job ", id, " cannot be read"));
}

absl::StatusOr<std::optional<v1::JobRecord>> SqliteJobIndex::FindIdentity(uint64_t id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(
      Statement find,
      database_->Prepare("SELECT name, owner, idempotency_key, state FROM jobs WHERE id = ?1"));
  ASSIGN_OR_RETURN(const bool row, find.Bind(1, static_cast<int64_t>(id)).Step());
  if (!row) return std::optional<v1::JobRecord>();
  const Owner owner = OwnerOfKey(find.Bytes(1));
  v1::JobRecord record;
  record.set_id(id);
  record.set_name(std::string(find.Bytes(0)));
  record.set_owner(owner.name);
  record.set_owner_id(owner.id);
  record.set_idempotency_key(std::string(find.Bytes(2)));
  record.set_state(static_cast<v1::JobState>(find.Integer(3)));
  return std::optional(std::move(record));
}

absl::StatusOr<std::optional<uint64_t>> SqliteJobIndex::FindNamed(const std::string& name) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement find, database_->Prepare("SELECT id FROM jobs WHERE name = ?1"));
  ASSIGN_OR_RETURN(const bool row, find.BindText(1, name).Step());
  if (!row) return std::optional<uint64_t>();
  return std::optional<uint64_t>(static_cast<uint64_t>(find.Integer(0)));
}

absl::StatusOr<std::vector<uint64_t>> SqliteJobIndex::FindLabeled(const std::string& label) {
  std::lock_guard lock(mutex_);
  // The range lets the query use the index: names with this label are among those that continue
  // with a digit.
  ASSIGN_OR_RETURN(Statement find,
                   database_->Prepare("SELECT id FROM jobs WHERE name >= ?1 || '-0' AND "
                                      "name < ?1 || '-:' AND name = ?1 || '-' || id LIMIT 2"));
  find.BindText(1, label);
  std::vector<uint64_t> found;
  RETURN_IF_ERROR(ForRows(find, [&](Statement& row) {
    found.push_back(static_cast<uint64_t>(row.Integer(0)));
    return absl::OkStatus();
  }));
  return found;
}

absl::StatusOr<std::vector<SqliteJobIndex::NamedJob>> SqliteJobIndex::FindPrefix(
    const std::string& prefix, uint32_t limit) {
  std::lock_guard lock(mutex_);
  const std::string after = AfterPrefix(prefix);
  ASSIGN_OR_RETURN(Statement find,
                   database_->Prepare("SELECT id, name FROM jobs WHERE name >= ?1 AND name < ?2 "
                                      "ORDER BY name LIMIT ?3"));
  find.BindText(1, prefix).BindText(2, after).Bind(3, limit);
  std::vector<NamedJob> found;
  RETURN_IF_ERROR(ForRows(find, [&](Statement& row) {
    found.push_back({static_cast<uint64_t>(row.Integer(0)), std::string(row.Bytes(1))});
    return absl::OkStatus();
  }));
  return found;
}

absl::StatusOr<uint64_t> SqliteJobIndex::Newest(const std::string& owner_key) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(
      Statement find,
      database_->Prepare("SELECT id FROM jobs WHERE owner = ?1 ORDER BY id DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool row, find.BindText(1, owner_key).Step());
  return row ? static_cast<uint64_t>(find.Integer(0)) : 0;
}

absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> SqliteJobIndex::Owners() {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement list, database_->Prepare("SELECT id, owner FROM jobs"));
  std::vector<std::pair<uint64_t, std::string>> owners;
  RETURN_IF_ERROR(ForRows(list, [&](Statement& row) {
    owners.emplace_back(static_cast<uint64_t>(row.Integer(0)), std::string(row.Bytes(1)));
    return absl::OkStatus();
  }));
  return owners;
}

absl::StatusOr<std::vector<v1::JobSummary>> SqliteJobIndex::List(const Filter& filter) {
  std::string sql = "SELECT summary FROM jobs WHERE id < ?1 AND finished_ms >= ?2";
  // The column has owner keys: the name alone, or the name, '#' and an id. '$' is the character
  // after '#'.
  if (!filter.owner.empty())
    sql += " AND (owner = ?3 OR (owner > ?3 || '#' AND owner < ?3 || '$'))";
  if (!filter.owner_key.empty()) sql += " AND owner = ?5";
  if (!filter.states.empty()) {
    sql += " AND state IN (";
    for (size_t i = 0; i < filter.states.size(); ++i) {
      sql += StrCat(i == 0 ? "" : ",", static_cast<int>(filter.states[i]));
    }
    sql += ")";
  }
  if (!filter.name_has.empty()) sql += " AND instr(name, ?4) > 0";
  sql += " ORDER BY id DESC";
  // Labels and project are in the summaries, so rows have to be read before they can be filtered.
  if (filter.labels.empty() && filter.project.empty()) sql += StrCat(" LIMIT ", filter.limit);
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement list, database_->Prepare(sql));
  list.Bind(1, filter.before_id == 0 ? INT64_MAX : static_cast<int64_t>(filter.before_id));
  list.Bind(2, filter.finished_since_ms);
  if (!filter.owner.empty()) list.BindText(3, filter.owner);
  if (!filter.name_has.empty()) list.BindText(4, filter.name_has);
  if (!filter.owner_key.empty()) list.BindText(5, filter.owner_key);
  std::vector<v1::JobSummary> found;
  while (found.size() < filter.limit) {
    ASSIGN_OR_RETURN(const bool row, list.Step());
    if (!row) break;
    v1::JobSummary summary;
    if (!ParseRow(list.Bytes(0), &summary)) {
      return DamagedDatabase(path_, "a job's summary cannot be read");
    }
    // Jobs from before projects existed have none.
    if (summary.project().empty()) summary.set_project("default");
    if (!filter.project.empty() && summary.project() != filter.project) continue;
    if (job::MeetsLabelTerms(summary.labels(), filter.labels)) found.push_back(std::move(summary));
  }
  return found;
}

absl::StatusOr<Statement> SqliteJobIndex::Ranged(const std::string& columns,
                                                 const EventRange& range,
                                                 const std::string& order) {
  std::string sql = StrCat("SELECT ", columns, " FROM events WHERE seq > ?1 AND seq <= ?2");
  // The index of events leaves out those of no job, which SQLite has to be told.
  if (range.job != 0) sql += " AND job = ?3 AND job != 0";
  if (!range.node.empty()) sql += " AND node = ?4";
  ASSIGN_OR_RETURN(Statement list, database_->Prepare(sql + order));
  list.Bind(1, static_cast<int64_t>(range.after)).Bind(2, static_cast<int64_t>(range.until));
  if (range.job != 0) list.Bind(3, static_cast<int64_t>(range.job));
  if (!range.node.empty()) list.BindText(4, range.node);
  list.Bind(5, range.newest);
  return list;
}

// The events of a job that are in the archive are older than those in the table. Without a job only the table is read:
// events of archived jobs are not in such lists any more.
absl::StatusOr<std::vector<v1::Event>> SqliteJobIndex::Events(const EventRange& range) {
  std::optional<ArchivedPart> part;
  std::vector<v1::Event> rows;
  {
    std::lock_guard lock(mutex_);
    const OneMoment moment(*database_);
    ASSIGN_OR_RETURN(part, PartOf(range));
    ASSIGN_OR_RETURN(rows, EventRows(range));
  }
  if (!part.has_value()) return rows;
  ASSIGN_OR_RETURN(
      std::vector<v1::Event> found,
      ReadArchivedEvents(
          *archive_, *part,
          {.node = range.node, .after = range.after, .until = range.until, .bytes = range.bytes}));
  std::move(rows.begin(), rows.end(), std::back_inserter(found));
  if (range.bytes == 0) {
    const size_t surplus = found.size() - std::min<size_t>(found.size(), range.newest);
    found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(surplus));
    return found;
  }
  size_t bytes = 0, count = 0;
  while (count < found.size() && bytes < range.bytes) bytes += found[count++].ByteSizeLong();
  found.resize(count);
  return found;
}

absl::StatusOr<std::optional<ArchivedPart>> SqliteJobIndex::PartOf(const EventRange& range) {
  if (range.job == 0) return std::optional<ArchivedPart>();
  return FindArchived(*database_, ArchivedKind::kJob, static_cast<int64_t>(range.job));
}

absl::StatusOr<std::vector<v1::Event>> SqliteJobIndex::EventRows(const EventRange& range) {
  const bool oldest = range.bytes > 0;
  ASSIGN_OR_RETURN(
      Statement list,
      Ranged("event", range, StrCat(" ORDER BY seq ", oldest ? "" : "DESC ", "LIMIT ?5")));
  std::vector<v1::Event> found;
  size_t bytes = 0;
  while (!oldest || bytes < range.bytes) {
    ASSIGN_OR_RETURN(const bool has_row, list.Step());
    if (!has_row) break;
    bytes += list.Bytes(0).size();
    if (!ParseRow(list.Bytes(0), &found.emplace_back()))
      return DamagedDatabase(path_, "an event cannot be read");
  }
  if (!oldest) std::reverse(found.begin(), found.end());
  return found;
}

absl::StatusOr<uint64_t> SqliteJobIndex::BeforeNewest(const EventRange& range) {
  if (range.newest == 0) return range.until;
  std::optional<ArchivedPart> part;
  size_t left = range.newest;
  {
    std::lock_guard lock(mutex_);
    const OneMoment moment(*database_);
    ASSIGN_OR_RETURN(Statement oldest,
                     Ranged("seq", range, " ORDER BY seq DESC LIMIT 1 OFFSET ?5 - 1"));
    ASSIGN_OR_RETURN(const bool has_row, oldest.Step());
    if (has_row) return static_cast<uint64_t>(oldest.Integer(0)) - 1;
    // All rows belong to it.
    ASSIGN_OR_RETURN(part, PartOf(range));
    if (!part.has_value()) return range.after;
    ASSIGN_OR_RETURN(Statement count, Ranged("count(*)", range, " LIMIT ?5"));
    RETURN_IF_ERROR(count.Step().status());
    left -= static_cast<size_t>(count.Integer(0));
  }
  ASSIGN_OR_RETURN(
      const std::vector<v1::Event> older,
      ReadArchivedEvents(*archive_, *part,
                         {.node = range.node, .after = range.after, .until = range.until}));
  return older.size() <= left ? range.after : older[older.size() - left].seq() - 1;
}

absl::StatusOr<FinishedCounts> SqliteJobIndex::CountFinished(int64_t ended_before_ms,
                                                             int64_t ended_after_ms) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement count,
                   database_->Prepare("SELECT count(*), ifnull(sum(lived_ms < ?1), 0), "
                                      "ifnull(sum(lived_ms > ?2), 0) FROM job_lives"));
  RETURN_IF_ERROR(count.Bind(1, ended_before_ms).Bind(2, ended_after_ms).Step().status());
  return FinishedCounts{count.Integer(0), count.Integer(1), count.Integer(2)};
}

absl::StatusOr<std::vector<RemoveInput::Job>> SqliteJobIndex::Oldest(uint32_t count) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement list,
                   database_->Prepare("SELECT id, name, owner, idempotency_key FROM job_lives "
                                      "JOIN jobs ON id = job ORDER BY lived_ms, job LIMIT ?1"));
  list.Bind(1, count);
  std::vector<RemoveInput::Job> found;
  RETURN_IF_ERROR(ForRows(list, [&](Statement& row) {
    Owner owner = OwnerOfKey(row.Bytes(2));
    found.push_back({.id = static_cast<uint64_t>(row.Integer(0)),
                     .name = std::string(row.Bytes(1)),
                     .owner = std::move(owner.name),
                     .idempotency_key = std::string(row.Bytes(3)),
                     .owner_id = std::move(owner.id)});
    return absl::OkStatus();
  }));
  return found;
}

absl::StatusOr<std::vector<std::string>> SqliteJobIndex::Referenced(
    const std::vector<std::string>& blobs) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(
      Statement find,
      database_->Prepare("SELECT 1 FROM blob_refs WHERE sha256 = ?1 UNION ALL SELECT 1 "
                         "FROM archive WHERE sha256 = ?1 LIMIT 1"));
  std::vector<std::string> referenced;
  for (const std::string& blob : blobs) {
    ASSIGN_OR_RETURN(const bool row, find.BindText(1, blob).Step());
    if (row) referenced.push_back(blob);
    find.Reset();
  }
  return referenced;
}

absl::StatusOr<std::vector<std::string>> SqliteJobIndex::BlobsOf(uint64_t job) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(
      Statement list,
      database_->Prepare("SELECT sha256 FROM blob_refs WHERE job = ?1 UNION ALL SELECT "
                         "sha256 FROM archive WHERE kind = 1 AND key = ?1"));
  list.Bind(1, static_cast<int64_t>(job));
  std::vector<std::string> blobs;
  RETURN_IF_ERROR(ForRows(list, [&](Statement& row) {
    blobs.emplace_back(row.Bytes(0));
    return absl::OkStatus();
  }));
  return blobs;
}

absl::StatusOr<bool> SqliteJobIndex::HasCode(const CodeName& code) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement find,
                   database_->Prepare("SELECT 1 FROM job_code WHERE placement = ?1 AND tree = ?2 "
                                      "AND project = ?3 LIMIT 1"));
  return find.BindText(1, code.placement).BindText(2, code.tree).BindText(3, code.project).Step();
}

bool SqliteJobIndex::NeedsWholeCheck() {
  std::lock_guard lock(mutex_);
  const auto pages = database_->Scalar("PRAGMA page_count");
  const auto page_size = database_->Scalar("PRAGMA page_size");
  return pages.ok() && page_size.ok() && *pages * *page_size > kCheckedAtOnceBytes;
}

absl::Status SqliteJobIndex::CheckWhole() {
  // A separate connection, so that queries are answered meanwhile.
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(path_, Database::Mode::kReadOnly));
  RETURN_IF_ERROR(database->Execute("PRAGMA wal_autocheckpoint=0"));
  ASSIGN_OR_RETURN(const std::string finding, database->Texts("PRAGMA quick_check(5)"));
  if (finding != "ok") return DamagedDatabase(path_, finding);
  return absl::OkStatus();
}

}  // namespace muster::coordinator
