// Reads the contents of a journal's database in order, and checks that nothing is missing. Shared
// by the journal and by the commands that work on a data directory without a coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Journal::Replay. Returns the number of the last event. `path` is for the errors.
absl::StatusOr<uint64_t> ReplayDatabase(Database& database, const std::string& path,
                                        const ReplayCallbacks& sink);

// The number in HIGHWATER; nullopt: the file is missing or empty, because a person deleted it or the
// coordinator was killed at its first event. DATA_LOSS: it cannot be read, or is damaged.
absl::StatusOr<std::optional<uint64_t>> ReadHighWater(const Paths& paths);
std::string HighWaterText(uint64_t event);
// DATA_LOSS when the database ends before an event that was acknowledged, or when this cannot be
// determined.
absl::Status CheckHighWater(const Paths& paths, uint64_t last_event);

}  // namespace muster::coordinator
