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

// The rows' bytes, in order, added to the field. False: they exceed kArchivedBytesMost together.
absl::StatusOr<bool> AddRows(Statement rows, google::protobuf::RepeatedPtrField<std::string>* to) {
  int64_t bytes = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return true;
    const std::string_view each = rows.Bytes(0);
    bytes += static_cast<int64_t>(each.size());
    if (bytes > kArchivedBytesMost) return false;
    to->Add(std::string(each));
  }
}

absl::StatusOr<std::optional<std::string>> PackJob(Database& database, int64_t job, int64_t last) {
  ASSIGN_OR_RETURN(Statement find,
                   database.Prepare("SELECT record FROM job_records WHERE id = ?1"));
  ASSIGN_OR_RETURN(const bool found, find.Bind(1, job).Step());
  if (!found) return std::nullopt;
  v1::ArchivedJob part;
  part.set_record(std::string(find.Bytes(0)));
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare("SELECT event FROM events WHERE job = ?1 AND seq <= ?2 ORDER BY seq"));
  rows.Bind(1, job).Bind(2, last);
  ASSIGN_OR_RETURN(const bool fits, AddRows(std::move(rows), part.mutable_events()));
  if (!fits || part.ByteSizeLong() > kArchivedBytesMost) return std::nullopt;
  return part.SerializeAsString();
}

absl::StatusOr<std::optional<std::string>> PackAudit(Database& database, int64_t first,
                                                     int64_t last) {
  v1::ArchivedAudit part;
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT entry FROM audit WHERE number BETWEEN ?1 AND ?2 "
                                    "ORDER BY number"));
  rows.Bind(1, first).Bind(2, last);
  ASSIGN_OR_RETURN(const bool fits, AddRows(std::move(rows), part.mutable_entries()));
  // Entries never lack a number; what seems to lack some stays where a person can look at it.
  if (!fits || part.entries_size() != last - first + 1) return std::nullopt;
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
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1632",
       .what = StrCat("the coordinator ", part.head, " has ", WhatOf(part), ", and this one not"),
       .fix = StrCat("ask again when ", part.head, " leads, or copy ", file,
                     " from its data directory into this one's")});
}

absl::StatusOr<std::optional<ArchivedPart>> FindArchived(Database& database, ArchivedKind kind,
                                                         int64_t key) {
  ASSIGN_OR_RETURN(Statement find, database.Prepare("SELECT last, sha256, bytes, head FROM archive "
                                                    "WHERE kind = ?1 AND key = ?2"));
  ASSIGN_OR_RETURN(const bool found, find.Bind(1, static_cast<int64_t>(kind)).Bind(2, key).Step());
  if (!found) return std::nullopt;
  return ArchivedPart{.kind = kind,
                      .key = key,
                      .last = find.Integer(0),
                      .sha256 = std::string(find.Bytes(1)),
                      .bytes = find.Integer(2),
                      .head = std::string(find.Bytes(3))};
}

absl::StatusOr<std::optional<std::string>> PackRows(Database& database, ArchivedKind kind,
                                                    int64_t key, int64_t last) {
  return kind == ArchivedKind::kJob ? PackJob(database, key, last) : PackAudit(database, key, last);
}

absl::Status MoveRows(Database& database, const ArchivedPart& part) {
  if (part.kind == ArchivedKind::kJob) {
    RETURN_IF_ERROR(RunWith(database, "DELETE FROM job_records WHERE id = ?1", {part.key}));
    RETURN_IF_ERROR(RunWith(database, "DELETE FROM events WHERE job = ?1 AND seq <= ?2",
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
  if (part.bytes < 0 || part.bytes > kArchivedBytesMost)
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
       .what = StrCat(WhatOf(part), " cannot be read: the file ", part.sha256,
                      " below blobs/ is "
                      "damaged"),
       .fix = "copy the file back from a backup, or from the data directory of another coordinator "
              "of this cluster"});
}

absl::StatusOr<std::vector<v1::Event>> ArchivedEvents(Database& database, const BlobStore& blobs,
                                                      uint64_t job, const std::string& node,
                                                      uint64_t after, uint64_t until) {
  std::vector<v1::Event> found;
  ASSIGN_OR_RETURN(const std::optional<ArchivedPart> part,
                   FindArchived(database, ArchivedKind::kJob, static_cast<int64_t>(job)));
  if (!part.has_value() || static_cast<int64_t>(after) >= part->last) return found;
  v1::ArchivedJob archived;
  RETURN_IF_ERROR(ReadArchived(blobs, *part, &archived));
  for (const std::string& bytes : archived.events()) {
    v1::Event event;
    if (!ParseRow(bytes, &event))
      return absl::DataLossError(StrCat("an event of job ", job, " in the archive is damaged"));
    if (event.seq() <= after || event.seq() > until) continue;
    if (node.empty() || event.node() == node) found.push_back(std::move(event));
  }
  return found;
}

}  // namespace muster::coordinator
