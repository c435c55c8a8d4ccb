// One file of a checkpoint or of outputs, from the coordinator into a directory: an interrupted
// download resumes, and only bytes that match the announced SHA-256 get the file's name. Blocks.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/pull_target.h"

namespace muster::client {

enum class Pulled { kPresent, kFetched };

// Errors: JC1504 if the file's name, size or bytes are not as announced (`verify` is then the fix),
// JC1601 if it cannot be written. `of`: what the file is of, without its path and an offset.
// `name`: below the target.
absl::StatusOr<Pulled> PullOne(Connection& connection, const v1::PullFileRequest& of,
                               const v1::CheckpointFile& file, const PullTarget& target,
                               const std::string& name, const std::string& verify);

}  // namespace muster::client
