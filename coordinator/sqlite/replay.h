// Reads what a journal's database holds, in order, and checks on the way that nothing is missing.
// Shared by the journal and by the commands that look at a data directory without a coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Journal::Replay. Returns the number of the last event. `path` is for the errors.
absl::StatusOr<uint64_t> ReplayDatabase(Database& database, const std::string& path,
                                        const ReplayCallbacks& sink);

// What HIGHWATER says; nullopt: it is missing or empty, as a person may make it, and as a coordinator
// leaves it that was killed at its first event. DATA_LOSS: it cannot be read, or is damaged.
absl::StatusOr<std::optional<uint64_t>> ReadHighWater(const Paths& paths);
std::string HighWaterText(uint64_t event);
// DATA_LOSS when the database ends before an event that was acknowledged, or this cannot be told.
absl::Status CheckHighWater(const Paths& paths, uint64_t last_event);

}  // namespace muster::coordinator
