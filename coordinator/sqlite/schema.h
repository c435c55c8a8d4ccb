// The tables of muster.db, and the checks before it is used. docs/formats.md documents them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"

namespace muster::coordinator {

inline constexpr int64_t kApplicationId = 0x4d535452;  // "MSTR"
// 2: the same tables; logs and metrics beside them are segments, which version 1 cannot read.
// 3: the same tables; people have ids, which version 2 ignores, so it would take a new person for an earlier
// one of that name; and projects without members are closed, which it would open to all users. A file gets this
// version when the first of these is recorded (MarkNewest).
inline constexpr int64_t kSchemaVersion = 3;
inline constexpr int64_t kSchemaWithoutPeople = 2;
// Up to this size the whole file is checked before it is used; above it, what replay reads is
// checked first and the rest while the daemon already serves (JobIndex::CheckWhole).
inline constexpr int64_t kCheckedAtOnceBytes = 64 << 20;

// Creates the tables in a new file, or rejects a damaged, foreign or newer one. FAILED_PRECONDITION
// or DATA_LOSS with the file, the finding and the fix.
absl::Status PrepareSchema(Database& database, const std::string& path);

// FAILED_PRECONDITION when the file is another program's, or of a newer version. `is_new`: it has no
// tables yet.
absl::Status CheckIdentity(Database& database, const std::string& path, bool* is_new);

// Older releases refuse the file from now on.
absl::Status MarkNewest(Database& database);

// The latest lived time that the last event or a finished job's row carries; 0: none does.
absl::StatusOr<int64_t> NewestLife(Database& database);
// SQL: finished jobs from a coordinator that did not track lived time start aging now; rows of jobs that
// it removed are deleted.
std::string BeginningOfLives(int64_t lived_ms);

// An error for a damaged database: the file, the finding, the fix.
absl::Status DamagedDatabase(const std::string& path, const std::string& finding);

}  // namespace muster::coordinator
