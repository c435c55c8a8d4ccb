#include "coordinator/sqlite/audit_store.h"

#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/parse_row.h"

namespace muster::coordinator {

using common::StrCat;

absl::StatusOr<std::unique_ptr<AuditStore>> SqliteAuditStore::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns) {
  std::unique_ptr<SqliteAuditStore> store(new SqliteAuditStore(paths.Database(), turns));
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
  ASSIGN_OR_RETURN(const int64_t first,
                   reader_->Scalar("SELECT ifnull(min(number), 0) FROM audit"));
  ASSIGN_OR_RETURN(const int64_t last, reader_->Scalar("SELECT ifnull(max(number), 0) FROM audit"));
  std::vector<uint64_t> parts;
  if (first == 0) return parts;
  for (uint64_t next = static_cast<uint64_t>(first); next <= static_cast<uint64_t>(last);
       next = (next / kPartEntries + 1) * kPartEntries) {
    parts.push_back(next);
  }
  return parts;
}

absl::StatusOr<AuditPart> SqliteAuditStore::Read(uint64_t first) const {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement rows,
                   reader_->Prepare("SELECT number, entry FROM audit WHERE number >= ?1 AND "
                                    "number < ?2 ORDER BY number"));
  const uint64_t end = (first / kPartEntries + 1) * kPartEntries;
  rows.Bind(1, static_cast<int64_t>(first)).Bind(2, static_cast<int64_t>(end));
  AuditPart part;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return part;
    part.bytes += rows.Bytes(1).size();
    v1::AuditEntry entry;
    if (ParseRow(rows.Bytes(1), &entry)) {
      part.sound_bytes = part.bytes;
      part.entries.push_back(std::move(entry));
    } else {
      part.damaged.push_back(StrCat(path_, ", entry ", rows.Integer(0)));
    }
  }
}

}  // namespace muster::coordinator
