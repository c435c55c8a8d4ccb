// SQLite with statuses: a connection and its statements. One thread at a time per connection. A
// full disk is RESOURCE_EXHAUSTED, a damaged file DATA_LOSS, too few descriptors UNAVAILABLE, a lock
// that another process holds DEADLINE_EXCEEDED (JC1613), anything else INTERNAL.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster::coordinator {

// A prepared statement; must not outlive its connection.
class Statement {
 public:
  Statement(sqlite3* connection, sqlite3_stmt* statement)
      : connection_(connection), statement_(statement) {}
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Parameters are numbered from 1. Blobs and texts must stay alive until Reset.
  Statement& Bind(int parameter, int64_t value);
  Statement& BindText(int parameter, std::string_view text);
  Statement& BindBlob(int parameter, std::string_view bytes);
  // True: there is a row to read. False: done.
  absl::StatusOr<bool> Step();
  // Steps to the end, then Reset.
  absl::Status Run();
  void Reset();

  // Columns are numbered from 0; texts are valid until the next Step.
  int64_t Integer(int column);
  std::string_view Bytes(int column);

 private:
  sqlite3* connection_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

class Database {
 public:
  enum class Mode { kReadWrite, kReadOnly };
  // Connections of one process take turns (write_turns.h); another process may keep it locked.
  static constexpr std::chrono::milliseconds kLockedAtMost{60'000};
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::string& path, Mode mode, std::chrono::milliseconds locked_at_most = kLockedAtMost);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  absl::Status Execute(const std::string& sql);
  absl::StatusOr<Statement> Prepare(const std::string& sql);
  // The first column of the first row; 0 if there is none.
  absl::StatusOr<int64_t> Scalar(const std::string& sql);
  // The first column of all rows, joined with "; ".
  absl::StatusOr<std::string> Texts(const std::string& sql);
  absl::StatusOr<bool> HasTable(const std::string& name);
  int64_t Changes();
  bool InTransaction();
  // For what SQLite does with a connection besides statements (changes.h).
  sqlite3* Handle() { return connection_; }
  // What one of SQLite's result codes on this connection means.
  absl::Status StatusOf(int code);

 private:
  explicit Database(sqlite3* connection) : connection_(connection) {}
  sqlite3* connection_;
};

// Runs the statement and passes each row to `each`, whose error ends it.
template <typename Each>
absl::Status ForRows(Statement& statement, Each each) {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return absl::OkStatus();
    RETURN_IF_ERROR(each(statement));
  }
}

// All that is read while it lives is of one moment.
class OneMoment {
 public:
  explicit OneMoment(Database& database) : database_(database) {
    database_.Execute("BEGIN").IgnoreError();
  }
  ~OneMoment() { database_.Execute("COMMIT").IgnoreError(); }
  OneMoment(const OneMoment&) = delete;
  OneMoment& operator=(const OneMoment&) = delete;

 private:
  Database& database_;
};

}  // namespace muster::coordinator
