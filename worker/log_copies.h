// torchrun's --log-dir: a copy of every rank's output on the node, in torchrun's layout,
// <log_dir>/<job>/attempt_<N>/<local rank>/stdout.log. Bytes are written at their stream offset, so
// what is sent again after a reconnection changes nothing. I/O thread. A copy that cannot be
// written is given up with one note; the coordinator's log has everything.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "common/files.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"

namespace muster::worker {

class LogCopies {
 public:
  explicit LogCopies(std::function<void(const std::string&)> note) : note_(std::move(note)) {}

  // Does nothing for jobs without a log_dir.
  void Open(const AttemptKey& key, const v1::LaunchAttempt& launch);
  void Write(const v1::LogChunk& chunk);
  void Close(const AttemptKey& key) { attempts_.erase(key); }

 private:
  struct Copy {
    std::string directory;
    uint32_t first_rank = 0;
    bool given_up = false;
    std::map<std::string, common::UniqueFd> files;  // by path
  };
  absl::Status WriteTo(Copy& copy, const v1::LogChunk& chunk);

  const std::function<void(const std::string&)> note_;
  std::map<AttemptKey, Copy> attempts_;
};

}  // namespace muster::worker
