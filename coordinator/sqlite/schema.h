// The tables of muster.db, and the checks before it is used. docs/formats.md draws them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database.h"

namespace muster::coordinator {

inline constexpr int64_t kApplicationId = 0x4d535452;  // "MSTR"
// 2: the same tables; logs and metrics beside them are segments, which those that know 1 do not
// understand.
inline constexpr int64_t kSchemaVersion = 2;
// Up to this size the whole file is checked before it is used; above it, what replay reads is
// checked first and the rest while the daemon already serves (JobIndex::CheckWhole).
inline constexpr int64_t kCheckedAtOnceBytes = 64 << 20;

// Makes the tables of a new file, or refuses a damaged, foreign or newer one. FAILED_PRECONDITION
// or DATA_LOSS with the file, the finding and the fix.
absl::Status PrepareSchema(Database& database, const std::string& path);

// FAILED_PRECONDITION when the file is another program's, or of a newer version. `is_new`: it has no
// tables yet.
absl::Status CheckIdentity(Database& database, const std::string& path, bool* is_new);

// The latest lived time that a finished job's row carries; 0: none does.
absl::StatusOr<int64_t> NewestLife(Database& database);
// Finished jobs of a coordinator that did not count lived time begin to grow old now; what such a
// one has removed is forgotten.
absl::Status BeginLives(Database& database, int64_t lived_ms);

// A message for a damaged database: the file, the finding, the fix.
absl::Status DamagedDatabase(const std::string& path, const std::string& finding);

}  // namespace muster::coordinator
