// Downloads one file into a directory: an interrupted download resumes, and only bytes that match the announced
// SHA-256 get the file's name. Blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/connection/connection.h"
#include "client/files/pull_target.h"

namespace muster::client {

enum class Pulled { kPresent, kFetched };

// The bytes of a file from an offset on, as long as `take` returns true.
using TakeBytes = std::function<bool(std::string_view)>;
using ReadFrom = std::function<absl::Status(uint64_t offset, const TakeBytes& take)>;

// Reads a file that the coordinator has. `request`: everything but the offset.
ReadFrom FromCoordinator(Connection& connection, const v1::PullFileRequest& request);

// Errors: JC1504 if the file's name, size or bytes are not as announced (`verify` is then the fix),
// JC1601 if it cannot be written. `name`: below the target.
absl::StatusOr<Pulled> PullOne(const ReadFrom& read, const v1::CheckpointFile& file,
                               const PullTarget& target, const std::string& name,
                               const std::string& verify);

}  // namespace muster::client
