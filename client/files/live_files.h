// Files as a running rank sees them, for `jobctl cp`: read and written by the shell and the core tools of
// the rank's place, with its rights, through exec calls. What comes back is as hostile as the rank. One
// thread; blocks.
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

  // The node that it runs on; known after the first other call. Printable.
  const std::string& node() const { return node_; }

  // Paths are relative to the rank's working directory and clean (common/outputs.h), "" is that itself.
  enum class Kind { kNone, kFile, kDirectory };
  absl::StatusOr<Kind> KindOf(const std::string& path);
  // The regular files that the path names or holds, by path, each with the SHA-256 of its first `size`
  // bytes; none: nothing is there. No link is followed but the path itself.
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
