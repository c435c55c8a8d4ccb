#include "coordinator/sqlite/database/changes.h"

#include <sqlite3.h>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/database/replica_tables.h"

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
  std::string last;
  return ForEachChange(changes, [&](const Change& change) -> absl::Status {
    if (change.table == last) return absl::OkStatus();
    last = change.table;
    ASSIGN_OR_RETURN(const bool is_there, HasTable(database, last, change.columns, change.is_key));
    if (is_there) return absl::OkStatus();
    return absl::DataLossError(common::StrCat(
        "a change is for a table '", last, "' of ", change.columns,
        " columns, which this version of muster-coordinator does not have like that"));
  });
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

namespace {

sqlite3_value* ValueOf(const Change& change, int column) {
  sqlite3_value* value = nullptr;
  if (column < 0 || column >= change.columns) return nullptr;
  // A removal has the key alone.
  const int code = change.kind == SQLITE_DELETE
                       ? sqlite3changeset_old(change.iterator, column, &value)
                       : sqlite3changeset_new(change.iterator, column, &value);
  return code == SQLITE_OK ? value : nullptr;
}

}  // namespace

int64_t Change::Integer(int column) const {
  sqlite3_value* const value = ValueOf(*this, column);
  return value == nullptr ? 0 : sqlite3_value_int64(value);
}

std::string Change::Text(int column) const {
  sqlite3_value* const value = ValueOf(*this, column);
  if (value == nullptr) return "";
  const auto* const bytes = static_cast<const char*>(sqlite3_value_blob(value));
  const int size = sqlite3_value_bytes(value);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size));
}

absl::Status ForEachChange(std::string_view changes,
                           const std::function<absl::Status(const Change&)>& each) {
  sqlite3_changeset_iter* iterator = nullptr;
  if (sqlite3changeset_start(&iterator, static_cast<int>(changes.size()),
                             const_cast<char*>(changes.data())) != SQLITE_OK) {
    return absl::DataLossError("a change cannot be read");
  }
  const std::unique_ptr<sqlite3_changeset_iter, int (*)(sqlite3_changeset_iter*)> finished(
      iterator, sqlite3changeset_finalize);
  while (sqlite3changeset_next(iterator) == SQLITE_ROW) {
    const char* table = nullptr;
    unsigned char* is_key = nullptr;
    Change change{.iterator = iterator};
    int is_indirect = 0;
    sqlite3changeset_op(iterator, &table, &change.columns, &change.kind, &is_indirect);
    sqlite3changeset_pk(iterator, &is_key, &change.columns);
    change.table = table;
    change.is_key = is_key;
    RETURN_IF_ERROR(each(change));
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
