// Hashes of the coordinator's audit, as its heartbeat replies carry them, kept on this node: a user
// who shortens or rewrites the audit there cannot change what this node knows of it. A text file,
// one head a line, oldest first: UNIX_MS NUMBER:HASH. Control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/identity.pb.h"

namespace muster::worker {

class AuditHeads {
 public:
  static constexpr size_t kKept = 32;
  // The newest line is replaced until the one before it is this old.
  static constexpr int64_t kApartMs = 3'600'000;
  // The file is written at most this often.
  static constexpr int64_t kWriteEveryMs = 60'000;

  AuditHeads(std::string path, std::function<void(const std::string&)> warn);
  void Saw(const v1::AuditHead& head, int64_t wall_ms);

 private:
  struct Kept {
    int64_t wall_ms = 0;
    v1::AuditHead head;
  };
  void Write() const;

  const std::string path_;
  const std::function<void(const std::string&)> warn_;
  std::vector<Kept> kept_;
  int64_t written_ms_ = 0;
};

// "muster-worker audit-heads --state-dir DIR" prints the file. Returns the exit status if the command
// line is this command, otherwise nothing.
std::optional<int> RunAuditHeadsCommand(int argc, char** argv);

}  // namespace muster::worker
