// Copies the files of one source of `jobctl cp` into a directory of this machine. Blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/files/copy_words.h"
#include "client/files/pull_file.h"
#include "client/session/session.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

// The files that one run copied, for the last line, and so that no file replaces the copy of
// another one.
struct Copied {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t present = 0;
  std::map<std::string, std::string> sources;  // by target
};
// "3 files copied, 1.2 MB; 1 already there and equal"
std::string DescribeCopied(const Copied& copied);

struct CopySource {
  RemotePath path;
  std::string job;                        // its name
  std::vector<v1::CheckpointFile> files;  // the files that the path names
  std::function<ReadFrom(const v1::CheckpointFile&)> read;
  std::string verify;  // the fix to suggest for bytes that are not as announced
};

// `may_rename`: a source that is one file may get the destination's name. Errors: as PullOne's, and
// JC1004 for two files of one name.
absl::Status CopyFiles(Session& session, const CopySource& source, const std::string& destination,
                       bool may_rename, Copied* copied);

}  // namespace muster::client
