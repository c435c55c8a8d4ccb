#include "coordinator/sqlite/database/database.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

absl::Status Locked(sqlite3* connection, const std::string& text) {
  const char* path = sqlite3_db_filename(connection, "main");
  const std::string name = path == nullptr ? "" : path;
  return common::MakeProblem(
      absl::StatusCode::kDeadlineExceeded,
      {.code = "JC1613",
       .what = common::StrCat(name, " is locked by another process"),
       .why = text,
       .fix = common::StrCat("stop the other process that has it open: fuser -v ", name)});
}

// SQLite treats only ENOSPC as a full disk. A used-up quota is one, too.
ssize_t AsFullDisk(ssize_t wrote) {
  if (wrote < 0 && errno == EDQUOT) errno = ENOSPC;
  return wrote;
}
ssize_t Write(int fd, const void* bytes, size_t size) { return AsFullDisk(write(fd, bytes, size)); }
ssize_t PWrite(int fd, const void* bytes, size_t size, off_t position) {
  return AsFullDisk(pwrite(fd, bytes, size, position));
}

// Called once, before the first connection.
bool WriteThroughOurs() {
  sqlite3_vfs* const vfs = sqlite3_vfs_find(nullptr);
  const auto set = [vfs](const char* name, auto* function) {
    vfs->xSetSystemCall(vfs, name, reinterpret_cast<sqlite3_syscall_ptr>(function));
  };
  set("write", &Write);
  set("pwrite", &PWrite);
  set("pwrite64", &PWrite);
  return true;
}

bool IsOfSync(int extended_code) {
  return extended_code == SQLITE_IOERR_FSYNC || extended_code == SQLITE_IOERR_DIR_FSYNC;
}

absl::Status ResultOf(sqlite3* connection, int code) {
  if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return absl::OkStatus();
  std::string text = common::StrCat("SQLite: ", sqlite3_errmsg(connection), " (",
                                    sqlite3_extended_errcode(connection), ")");
  const int system_error = sqlite3_system_errno(connection);
  const bool is_short = system_error == EMFILE || system_error == ENFILE;
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(text);
    case SQLITE_CANTOPEN:
      return is_short ? absl::UnavailableError(text) : absl::InternalError(text);
    case SQLITE_IOERR:
      // Even if the disk is full: data that a sync could not write may be gone from memory, too.
      if (IsOfSync(sqlite3_extended_errcode(connection))) return absl::InternalError(text);
      if (is_short) return absl::UnavailableError(text);
      // The WAL index could not grow, and SQLite keeps no errno for that.
      if (system_error == ENOSPC || system_error == EDQUOT ||
          sqlite3_extended_errcode(connection) == SQLITE_IOERR_SHMSIZE) {
        return absl::ResourceExhaustedError(text);
      }
      return absl::InternalError(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Locked(connection, text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : connection_(other.connection_), statement_(std::exchange(other.statement_, nullptr)) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(statement_, other.statement_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::Bind(int parameter, int64_t value) {
  // The numbers of parameters are ours, and a statement is bound before it is stepped.
  CHECK(sqlite3_bind_int64(statement_, parameter, value) == SQLITE_OK);
  return *this;
}

Statement& Statement::BindText(int parameter, std::string_view text) {
  // As above. SQLite takes up to 1 GB, and requests, records and everything made from them have lower limits.
  CHECK(sqlite3_bind_text64(statement_, parameter, text.data() == nullptr ? "" : text.data(),
                            text.size(), SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK);
  return *this;
}

Statement& Statement::BindBlob(int parameter, std::string_view bytes) {
  // As above. SQLite takes up to 1 GB, and requests, records and everything made from them have lower limits.
  CHECK(sqlite3_bind_blob64(statement_, parameter, bytes.data() == nullptr ? "" : bytes.data(),
                            bytes.size(), SQLITE_STATIC) == SQLITE_OK);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  absl::Status status = ResultOf(connection_, code);
  sqlite3_reset(statement_);
  return status;
}

absl::Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) break;
  }
  Reset();
  return absl::OkStatus();
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

int64_t Statement::Integer(int column) { return sqlite3_column_int64(statement_, column); }

std::string_view Statement::Bytes(int column) {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Mode mode,
                                                         std::chrono::milliseconds locked_at_most) {
  const int flags =
      mode == Mode::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  [[maybe_unused]] static const bool is_set = WriteThroughOurs();
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &connection, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (connection == nullptr) return absl::ResourceExhaustedError("SQLite: out of memory");
  std::unique_ptr<Database> database(new Database(connection));
  RETURN_IF_ERROR(ResultOf(connection, code));
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, static_cast<int>(locked_at_most.count()));
  return database;
}

Database::~Database() { sqlite3_close_v2(connection_); }

absl::Status Database::Execute(const std::string& sql) {
  return ResultOf(connection_, sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr));
}

absl::StatusOr<Statement> Database::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(connection_, sql.c_str(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  RETURN_IF_ERROR(ResultOf(connection_, code));
  return Statement(connection_, statement);
}

absl::StatusOr<int64_t> Database::Scalar(const std::string& sql) {
  ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Integer(0) : 0;
}

absl::StatusOr<std::string> Database::Texts(const std::string& sql) {
  ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  std::string joined;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return joined;
    if (!joined.empty()) joined += "; ";
    joined += statement.Bytes(0);
  }
}

absl::StatusOr<bool> Database::HasTable(const std::string& name) {
  ASSIGN_OR_RETURN(Statement find,
                   Prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1"));
  return find.BindText(1, name).Step();
}

int64_t Database::Changes() { return sqlite3_changes64(connection_); }

absl::Status Database::StatusOf(int code) { return ResultOf(connection_, code); }

bool Database::InTransaction() { return sqlite3_get_autocommit(connection_) == 0; }

}  // namespace muster::coordinator
