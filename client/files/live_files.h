// Accesses files as a running rank sees them, for `jobctl cp`: through exec calls, with the shell and core
// tools in the rank's environment and with its rights. The results are as untrusted as the rank. One thread;
// blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connection/exec_call.h"
#include "client/files/pull_file.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class LiveFiles {
 public:
  using Open = std::function<std::unique_ptr<ExecCall>(const v1::ExecStart&)>;
  // The files of rank `rank`; `job` is the name of the job in messages.
  LiveFiles(Open open, std::string job, uint32_t rank);

  // The node on which the rank runs; known after the first other call. Printable.
  const std::string& node() const { return node_; }

  // Paths are relative to the rank's working directory and clean (common/outputs.h), "" is the directory
  // itself.
  enum class Kind { kNone, kFile, kDirectory };
  absl::StatusOr<Kind> KindOf(const std::string& path);
  // The regular files that the path names or holds, by path, each with the SHA-256 of its first `size` bytes;
  // none: nothing is there. Follows a link only if the path itself is one.
  absl::StatusOr<std::vector<v1::CheckpointFile>> List(const std::string& path);
  ReadFrom Read(const std::string& path, uint64_t size);
  // Writes the rest of an open file, which has this hash, completely or not at all; makes directories.
  absl::Status Store(int fd, const std::string& path, const std::string& sha256,
                     bool is_executable);

 private:
  // Runs `sh -c SCRIPT` with `words` as its arguments. `input`: the bytes of this file, unless -1.
  absl::Status Run(const std::string& what, std::string_view script,
                   const std::vector<std::string>& words, int input, const TakeBytes& output,
                   int* exit_code);
  absl::Status Failed(const std::string& what, const std::string& why) const;

  const Open open_;
  const std::string job_;
  const uint32_t rank_;
  std::string node_;
};

}  // namespace muster::client
