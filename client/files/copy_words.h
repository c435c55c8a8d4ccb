// The arguments of `jobctl cp`: which ones are a job's paths, and where the files that they name are copied to.
// PlaceOf accesses the file system; the rest is pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/text/outputs.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

// JOB[@ATTEMPT]:PATH
struct RemotePath {
  AttemptOfJob from;
  std::string path;  // clean (common/outputs.h); empty: everything
};

// A colon after a slash belongs to a local path, as for scp.
bool IsRemote(std::string_view word);
absl::StatusOr<RemotePath> ParseRemote(const std::string& word);

// Where the files of one source go: below a directory, under the path's last component, or, for
// one file and a name that is not a directory, under that name.
struct Placed {
  std::string directory;
  std::string name;  // of the source below it; empty: the files' own paths
};
Placed PlaceOf(const RemotePath& source, const std::string& destination, bool may_rename,
               const std::vector<v1::CheckpointFile>& files);
std::string NameBelow(const Placed& placed, const RemotePath& source,
                      const v1::CheckpointFile& file);

}  // namespace muster::client
