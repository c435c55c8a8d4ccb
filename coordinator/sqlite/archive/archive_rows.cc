#include "coordinator/sqlite/archive/archive_rows.h"

#include <initializer_list>
#include <utility>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "muster/v1/archive.pb.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kPartColumns[] = "kind, key, last, sha256, bytes, head";  // as PartOfRow has them

// The bytes of rows, in order. nullopt: they have about kArchivedBytesMost together, or more.
absl::StatusOr<std::optional<std::vector<std::string>>> ReadRows(Database& database,
                                                                 const std::string& column,
                                                                 const std::string& where,
                                                                 int64_t one, int64_t two) {
  ASSIGN_OR_RETURN(Statement sum,
                   database.Prepare(StrCat("SELECT ifnull(sum(length(", column, ")), 0)", where)));
  RETURN_IF_ERROR(sum.Bind(1, one).Bind(2, two).Step().status());
  if (sum.Integer(0) >= kArchivedBytesMost) return std::nullopt;
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(StrCat("SELECT ", column, where)));
  rows.Bind(1, one).Bind(2, two);
  std::vector<std::string> found;
  RETURN_IF_ERROR(ForRows(rows, [&](Statement& row) {
    found.emplace_back(row.Bytes(0));
    return absl::OkStatus();
  }));
  return found;
}

ArchivedPart PartOfRow(Statement& row) {
  return {.kind = static_cast<ArchivedKind>(row.Integer(0)),
          .key = row.Integer(1),
          .last = row.Integer(2),
          .sha256 = std::string(row.Bytes(3)),
          .bytes = row.Integer(4),
          .head = std::string(row.Bytes(5))};
}

absl::StatusOr<std::optional<std::string>> PackJob(Database& database, int64_t job, int64_t last) {
  ASSIGN_OR_RETURN(Statement find,
                   database.Prepare("SELECT record FROM job_records WHERE id = ?1"));
  ASSIGN_OR_RETURN(const bool found, find.Bind(1, job).Step());
  if (!found) return std::nullopt;
  v1::ArchivedJob part;
  part.set_record(std::string(find.Bytes(0)));
  // `job != 0`: the index of events leaves out those of no job, which SQLite has to be told.
  ASSIGN_OR_RETURN(
      std::optional<std::vector<std::string>> events,
      ReadRows(database, "event",
               " FROM events WHERE job = ?1 AND job != 0 AND seq <= ?2 ORDER BY seq", job, last));
  if (!events.has_value()) return std::nullopt;
  for (std::string& event : *events) part.add_events(std::move(event));
  return part.SerializeAsString();
}

absl::StatusOr<std::optional<std::string>> PackAudit(Database& database, int64_t first,
                                                     int64_t last) {
  ASSIGN_OR_RETURN(
      std::optional<std::vector<std::string>> entries,
      ReadRows(database, "entry", " FROM audit WHERE number BETWEEN ?1 AND ?2 ORDER BY number",
               first, last));
  // Entries never lack a number; what seems to lack some stays where a person can look at it.
  if (!entries.has_value() || std::ssize(*entries) != last - first + 1) return std::nullopt;
  v1::ArchivedAudit part;
  for (std::string& entry : *entries) part.add_entries(std::move(entry));
  return part.SerializeAsString();
}

absl::Status RunWith(Database& database, const std::string& sql,
                     std::initializer_list<int64_t> values) {
  ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  int parameter = 0;
  for (const int64_t value : values) statement.Bind(++parameter, value);
  return statement.Run();
}

std::string WhatOf(const ArchivedPart& part) {
  return part.kind == ArchivedKind::kJob
             ? StrCat("the record of job ", part.key)
             : StrCat("the entries ", part.key, " to ", part.last, " of the audit");
}

}  // namespace

absl::Status ArchivedElsewhere(const ArchivedPart& part) {
  const std::string file = StrCat("blobs/sha256/", part.sha256.substr(0, 2), "/", part.sha256);
  if (part.head.empty()) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1602",
         .what = StrCat(WhatOf(part), " should be in ", file, ", which is missing"),
         .fix = "copy the file back from a backup"});
  }
  // Not UNAVAILABLE: to ask again does not help.
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1632",
       .what = StrCat("the coordinator ", part.head, " moved ", WhatOf(part),
                      " to its archive, and this one has no copy"),
       .fix = StrCat("ask again when ", part.head, " leads, or copy ", file,
                     " from its data directory, or from a backup, into this one's")});
}

absl::StatusOr<std::optional<ArchivedPart>> FindArchived(Database& database, ArchivedKind kind,
                                                         int64_t key) {
  ASSIGN_OR_RETURN(Statement find,
                   database.Prepare(StrCat("SELECT ", kPartColumns,
                                           " FROM archive WHERE kind = ?1 AND key = "
                                           "?2")));
  ASSIGN_OR_RETURN(const bool found, find.Bind(1, static_cast<int64_t>(kind)).Bind(2, key).Step());
  if (!found) return std::nullopt;
  return PartOfRow(find);
}

absl::Status ForEachArchived(Database& database,
                             const std::function<absl::Status(const ArchivedPart&)>& each) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare(StrCat("SELECT ", kPartColumns, " FROM archive")));
  return ForRows(rows, [&](Statement& row) { return each(PartOfRow(row)); });
}

absl::StatusOr<std::optional<std::string>> PackRows(Database& database, ArchivedKind kind,
                                                    int64_t key, int64_t last) {
  return kind == ArchivedKind::kJob ? PackJob(database, key, last) : PackAudit(database, key, last);
}

absl::Status MoveRows(Database& database, const ArchivedPart& part) {
  if (part.kind == ArchivedKind::kJob) {
    RETURN_IF_ERROR(RunWith(database, "DELETE FROM job_records WHERE id = ?1", {part.key}));
    RETURN_IF_ERROR(RunWith(database,
                            "DELETE FROM events WHERE job = ?1 AND job != 0 AND seq <= ?2",
                            {part.key, part.last}));
  } else {
    RETURN_IF_ERROR(RunWith(database, "DELETE FROM audit WHERE number BETWEEN ?1 AND ?2",
                            {part.key, part.last}));
  }
  ASSIGN_OR_RETURN(Statement put,
                   database.Prepare("INSERT INTO archive VALUES(?1, ?2, ?3, ?4, ?5, ?6)"));
  return put.Bind(1, static_cast<int64_t>(part.kind))
      .Bind(2, part.key)
      .Bind(3, part.last)
      .BindText(4, part.sha256)
      .Bind(5, part.bytes)
      .BindText(6, part.head)
      .Run();
}

absl::Status ReadArchived(const BlobStore& blobs, const ArchivedPart& part,
                          google::protobuf::MessageLite* message) {
  // What was packed has a little more around it.
  if (part.bytes < 0 || part.bytes > 2 * kArchivedBytesMost)
    return absl::DataLossError(StrCat(WhatOf(part), " cannot have ", part.bytes, " bytes"));
  // One more, to notice a file that is longer.
  const absl::StatusOr<std::string> bytes =
      blobs.Read(part.sha256, 0, static_cast<size_t>(part.bytes) + 1);
  if (absl::IsNotFound(bytes.status())) return ArchivedElsewhere(part);
  RETURN_IF_ERROR(bytes.status());
  if (common::Sha256Hex(*bytes) == part.sha256 && ParseRow(*bytes, message))
    return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what =
           StrCat(WhatOf(part), " cannot be read: the file ", part.sha256, " below blobs/ differs"),
       .fix = "copy the file back from a backup, or from the data directory of another coordinator "
              "of this cluster"});
}

absl::StatusOr<std::vector<v1::Event>> ReadArchivedEvents(const BlobStore& blobs,
                                                          const ArchivedPart& part,
                                                          const EventsWanted& wanted) {
  std::vector<v1::Event> found;
  if (static_cast<int64_t>(wanted.after) >= part.last) return found;
  v1::ArchivedJob archived;
  RETURN_IF_ERROR(ReadArchived(blobs, part, &archived));
  size_t bytes = 0;
  for (const std::string& each : archived.events()) {
    if (wanted.bytes > 0 && bytes >= wanted.bytes) break;
    v1::Event event;
    if (!ParseRow(each, &event))
      return absl::DataLossError(
          StrCat("an event of job ", part.key, " in the archive is damaged"));
    if (event.seq() <= wanted.after || event.seq() > wanted.until) continue;
    if (!wanted.node.empty() && event.node() != wanted.node) continue;
    bytes += each.size();
    found.push_back(std::move(event));
  }
  return found;
}

}  // namespace muster::coordinator
