// What a transaction changes, as bytes that make the same changes in a copy of the database: SQLite's patchsets
// (https://www.sqlite.org/sessionintro.html). The schema is not part of it, nor is the table `replica`, which
// tells how far a copy is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"

struct sqlite3_session;
struct sqlite3_changeset_iter;

namespace muster::coordinator {

// Records from its construction on, within one transaction.
class ChangeRecorder {
 public:
  static absl::StatusOr<std::unique_ptr<ChangeRecorder>> Begin(Database& database);
  ~ChangeRecorder();
  ChangeRecorder(const ChangeRecorder&) = delete;
  ChangeRecorder& operator=(const ChangeRecorder&) = delete;
  // Empty: nothing has changed.
  absl::StatusOr<std::string> Take();

 private:
  explicit ChangeRecorder(sqlite3_session* session) : session_(session) {}
  sqlite3_session* session_;
};

// One row that is added, removed or changed.
struct Change {
  sqlite3_changeset_iter* iterator = nullptr;
  std::string_view table;
  int kind = 0;  // SQLITE_INSERT, SQLITE_DELETE, SQLITE_UPDATE
  int columns = 0;
  const unsigned char* is_key = nullptr;  // an entry for each column
  // What the row has afterwards; of a removed row, of the key's columns, what it had. 0 and "": nothing is known.
  int64_t Integer(int column) const;
  std::string Text(int column) const;
};

// In the order of the changes; what `each` is given lives until it returns. Its error ends it.
absl::Status ForEachChange(std::string_view changes,
                           const std::function<absl::Status(const Change&)>& each);

// In a transaction of the caller. The bytes are as Take returned them: SQLite reads some that were cut, and never ends.
// DATA_LOSS: the copy lacks what the changes are made to, or has it already.
absl::Status ApplyChanges(Database& database, std::string_view changes);

}  // namespace muster::coordinator
