// jobctl cp from and to a rank that runs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/command_line/arguments.h"
#include "client/connection/connection.h"
#include "client/files/copy_files.h"
#include "client/session/session.h"

namespace muster::client {

// `source` as the rank has it now, into a directory of this machine.
absl::Status CopyLive(Session& session, Connection& connection, const RemotePath& source,
                      const std::string& destination, bool may_rename, const Arguments& arguments,
                      Copied* copied);

// Local files and directories to the rank's place.
absl::Status CopyInto(Session& session, Connection& connection,
                      const std::vector<std::string>& sources, const RemotePath& destination,
                      const Arguments& arguments, Copied* copied);

}  // namespace muster::client
