#include "coordinator/sqlite/changes.h"

#include <sqlite3.h>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/replica_tables.h"

namespace muster::coordinator {
namespace {

int IsRecorded(void*, const char* table) {
  return std::string_view(table) != kReplicaTable ? 1 : 0;
}

// A copy that differs is a defect: it is never repaired by guessing.
int OnConflict(void* what, int reason, sqlite3_changeset_iter*) {
  *static_cast<int*>(what) = reason;
  return SQLITE_CHANGESET_ABORT;
}

// Whether the database has the table with these first columns, and the same key. `is_key`: an entry for each column.
absl::StatusOr<bool> HasTable(Database& database, const std::string& table, int columns,
                              const unsigned char* is_key) {
  ASSIGN_OR_RETURN(Statement info, database.Prepare("SELECT pk FROM pragma_table_info(?)"));
  info.BindText(1, table);
  for (int column = 0;; ++column) {
    ASSIGN_OR_RETURN(const bool has_row, info.Step());
    if (!has_row) return column >= columns;
    const bool is_key_there = column < columns && is_key[column] != 0;
    if ((info.Integer(0) > 0) != is_key_there) return false;
  }
}

// SQLite skips the changes of a table that is not there, lacks columns, or has another key, and calls that a success.
// One that has more columns, as of a newer version, keeps their defaults.
absl::Status CheckTables(Database& database, std::string_view changes) {
  sqlite3_changeset_iter* iterator = nullptr;
  if (sqlite3changeset_start(&iterator, static_cast<int>(changes.size()),
                             const_cast<char*>(changes.data())) != SQLITE_OK) {
    return absl::DataLossError("a change cannot be read");
  }
  const std::unique_ptr<sqlite3_changeset_iter, int (*)(sqlite3_changeset_iter*)> finished(
      iterator, sqlite3changeset_finalize);
  std::string last;
  while (sqlite3changeset_next(iterator) == SQLITE_ROW) {
    const char* table = nullptr;
    int columns = 0, kind = 0, is_indirect = 0;
    sqlite3changeset_op(iterator, &table, &columns, &kind, &is_indirect);
    if (last == table) continue;
    last = table;
    unsigned char* is_key = nullptr;
    sqlite3changeset_pk(iterator, &is_key, &columns);
    ASSIGN_OR_RETURN(const bool is_there, HasTable(database, last, columns, is_key));
    if (is_there) continue;
    return absl::DataLossError(common::StrCat(
        "a change is for a table '", last, "' of ", columns,
        " columns, which this version of muster-coordinator does not have like that"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChangeRecorder>> ChangeRecorder::Begin(Database& database) {
  sqlite3_session* session = nullptr;
  const int code = sqlite3session_create(database.Handle(), "main", &session);
  if (code != SQLITE_OK) return absl::InternalError(common::StrCat("SQLite's session: ", code));
  std::unique_ptr<ChangeRecorder> recorder(new ChangeRecorder(session));
  sqlite3session_table_filter(session, IsRecorded, nullptr);
  if (sqlite3session_attach(session, nullptr) != SQLITE_OK)
    return absl::InternalError("SQLite's session: out of memory");
  return recorder;
}

ChangeRecorder::~ChangeRecorder() { sqlite3session_delete(session_); }

absl::StatusOr<std::string> ChangeRecorder::Take() {
  int size = 0;
  void* bytes = nullptr;
  const int code = sqlite3session_patchset(session_, &size, &bytes);
  const std::unique_ptr<void, void (*)(void*)> freed(bytes, sqlite3_free);
  if (code != SQLITE_OK) return absl::InternalError(common::StrCat("SQLite's patchset: ", code));
  return std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

absl::Status ApplyChanges(Database& database, std::string_view changes) {
  RETURN_IF_ERROR(CheckTables(database, changes));
  int conflict = 0;
  // SQLite takes the buffer as not const, and reads it only.
  const int code =
      sqlite3changeset_apply(database.Handle(), static_cast<int>(changes.size()),
                             const_cast<char*>(changes.data()), nullptr, OnConflict, &conflict);
  if (code == SQLITE_OK) return absl::OkStatus();
  if (conflict != 0 || code == SQLITE_ABORT || code == SQLITE_CORRUPT || code == SQLITE_SCHEMA) {
    return absl::DataLossError(
        common::StrCat("the copy is not what a change was made for (conflict ", conflict, ")"));
  }
  return database.StatusOf(code);
}

}  // namespace muster::coordinator
