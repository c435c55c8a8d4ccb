// What a transaction changes, as bytes that make the same changes in a copy of the database: SQLite's patchsets
// (https://www.sqlite.org/sessionintro.html). The schema is not part of it, nor is the table `replica`, which
// tells how far a copy is.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database.h"

struct sqlite3_session;

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

// In a transaction of the caller. The bytes are as Take returned them: SQLite reads some that were cut, and never ends.
// DATA_LOSS: the copy lacks what the changes are made to, or has it already.
absl::Status ApplyChanges(Database& database, std::string_view changes);

}  // namespace muster::coordinator
