#include "coordinator/sqlite/audit_store.h"

#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/archive/archive_rows.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "muster/v1/archive.pb.h"

namespace muster::coordinator {

using common::StrCat;

absl::StatusOr<std::unique_ptr<AuditStore>> SqliteAuditStore::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns,
    std::shared_ptr<const BlobStore> archive) {
  std::unique_ptr<SqliteAuditStore> store(
      new SqliteAuditStore(paths.Database(), turns, std::move(archive)));
  ASSIGN_OR_RETURN(store->writer_, OpenForTurns(paths.Database(), *turns));
  ASSIGN_OR_RETURN(store->reader_, Database::Open(paths.Database(), Database::Mode::kReadOnly));
  return store;
}

absl::StatusOr<AuditStore::End> SqliteAuditStore::Recover() {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement last,
                   reader_->Prepare("SELECT entry FROM audit ORDER BY number DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool row, last.Step());
  if (!row) return End();
  v1::AuditEntry entry;
  if (!ParseRow(last.Bytes(0), &entry))
    return absl::DataLossError(StrCat("the last entry of the audit in ", path_, " cannot be read"));
  End end;
  end.head.set_number(entry.number());
  end.head.set_hash(entry.hash());
  return end;
}

absl::Status SqliteAuditStore::Append(const std::vector<const v1::AuditEntry*>& entries) {
  return turns_->Write(*writer_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Statement put, writer_->Prepare("INSERT INTO audit VALUES(?1, ?2)"));
    for (const v1::AuditEntry* entry : entries) {
      const std::string bytes = entry->SerializeAsString();
      RETURN_IF_ERROR(put.Bind(1, static_cast<int64_t>(entry->number())).BindBlob(2, bytes).Run());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<uint64_t>> SqliteAuditStore::Parts() const {
  std::lock_guard lock(mutex_);
  const OneMoment moment(*reader_);
  // What seems to lack an entry never leaves, so rows may be older than parts in the archive.
  std::set<uint64_t> parts;
  ASSIGN_OR_RETURN(Statement archived, reader_->Prepare("SELECT key FROM archive WHERE kind = 2"));
  RETURN_IF_ERROR(ForRows(archived, [&](Statement& row) {
    parts.insert(static_cast<uint64_t>(row.Integer(0)));
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const int64_t first,
                   reader_->Scalar("SELECT ifnull(min(number), 0) FROM audit"));
  ASSIGN_OR_RETURN(const int64_t last, reader_->Scalar("SELECT ifnull(max(number), 0) FROM audit"));
  for (int64_t next = first; next > 0 && next <= last; next = LastOfAuditPart(next) + 1)
    parts.insert(static_cast<uint64_t>(next));
  return std::vector<uint64_t>(parts.begin(), parts.end());
}

void SqliteAuditStore::Add(std::string_view bytes, int64_t number, AuditPart& part) const {
  part.bytes += bytes.size();
  v1::AuditEntry entry;
  if (ParseRow(bytes, &entry)) {
    part.sound_bytes = part.bytes;
    part.entries.push_back(std::move(entry));
  } else {
    part.damaged.push_back(StrCat(path_, ", entry ", number));
  }
}

absl::StatusOr<AuditPart> SqliteAuditStore::Read(uint64_t first) const {
  std::lock_guard lock(mutex_);
  const int64_t begin = static_cast<int64_t>(first);
  AuditPart part;
  ASSIGN_OR_RETURN(Statement rows,
                   reader_->Prepare("SELECT number, entry FROM audit WHERE number BETWEEN ?1 AND "
                                    "?2 ORDER BY number"));
  rows.Bind(1, begin).Bind(2, LastOfAuditPart(begin));
  RETURN_IF_ERROR(ForRows(rows, [&](Statement& row) {
    Add(row.Bytes(1), row.Integer(0), part);
    return absl::OkStatus();
  }));
  // A part leaves whole, maybe just now.
  if (part.bytes > 0) return part;
  ASSIGN_OR_RETURN(const std::optional<ArchivedPart> moved,
                   FindArchived(*reader_, ArchivedKind::kAudit, begin));
  if (!moved.has_value()) return part;
  v1::ArchivedAudit archived;
  RETURN_IF_ERROR(ReadArchived(*archive_, *moved, &archived));
  int64_t number = begin;
  for (const std::string& entry : archived.entries()) Add(entry, number++, part);
  return part;
}

}  // namespace muster::coordinator
