// torchrun's --log-dir: a copy of every rank's output on the node, in torchrun's layout,
// <log_dir>/<job>/attempt_<N>/<local rank>/stdout.log. Bytes are written at their stream offset, so
// that resending after a reconnection changes nothing. The directory is the job's: writing happens
// on the attempt's own thread, behind a bounded queue; an attempt whose copies do not keep up
// delays only its own streams. A copy that cannot be written, or makes no progress for a while, is
// abandoned with one note; the coordinator's log has everything. I/O thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/job_threads.h"
#include "worker/base/paths.h"
#include "worker/core/state.h"

namespace muster::worker {

class LogCopies {
 public:
  struct Callbacks {
    std::function<void(std::function<void()>)>
        in_loop;  // posts from a job's thread to the I/O thread
    std::function<void(const std::string&)> note;
  };
  LogCopies(Paths paths, JobThreads* threads, Callbacks callbacks)
      : paths_(std::move(paths)), threads_(threads), callbacks_(std::move(callbacks)) {}

  // Does nothing for a job without a log_dir.
  void Open(const AttemptKey& key, const v1::LaunchAttempt& launch);
  // False: its queue is full. True for attempts without copies.
  bool KeepsUp(const AttemptKey& key) const;
  void Write(const v1::LogChunk& chunk, int64_t now_ms);
  void Close(const AttemptKey& key) { attempts_.erase(key); }
  // Abandons copies that hang.
  void OnTime(int64_t now_ms);

 private:
  class Files;  // on the attempt's thread
  struct Copy {
    std::string directory;
    std::shared_ptr<Files> files;
    size_t waiting_bytes = 0;
    int64_t progress_ms = 0;  // when the queue was last empty or something was written
    bool given_up = false;
  };
  void OnWritten(const AttemptKey& key, size_t bytes, const absl::Status& written);
  void GiveUp(const AttemptKey& key, Copy& copy, const std::string& reason);

  const Paths paths_;
  JobThreads* const threads_;
  const Callbacks callbacks_;
  std::map<AttemptKey, Copy> attempts_;
};

}  // namespace muster::worker
