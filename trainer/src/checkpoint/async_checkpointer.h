// Saving without stopping: the training thread copies the state, one background thread runs the
// joint protocol of checkpoint.h over a process group of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/snapshot.h"

namespace muster {

// Training thread only. save, save_now and wait are collective: all ranks call the same ones in the
// same order, as the background threads of the ranks talk to each other in that order.
class AsyncCheckpointer {
 public:
  // `side_group` carries nothing but these saves (null for one rank): its collectives run beside
  // those of training. A save or wait that finds the one before still under way waits for it, at
  // most wait_timeout.
  AsyncCheckpointer(CheckpointWriterOptions options, ProcessGroupPtr side_group,
                    std::chrono::milliseconds wait_timeout);
  // Finishes the save that is under way; an error that nobody asked for goes to stderr.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;

  // Makes memory for copies of so many bytes ready in the background, so that the first save stops
  // training no longer than the others. `pinned`: for tensors on a device. Not collective; call it
  // when the size of model and optimizer state is known. A wrong size costs nothing but time.
  void reserve(int64_t bytes, bool pinned);
  // The same for a content like the ones that will be saved: global tensors and shards.
  void reserve(const CheckpointContent& like);

  // Begins a save of the content as it is now and returns the path that it will have. Waits for the
  // one before; throws its CheckpointError on all ranks alike, and then begins nothing. An error of
  // this save, even a copy that failed on one rank, shows at the next call on all ranks.
  std::string save(const CheckpointContent& content, int64_t removable_up_to);

  // A save that is durable when it returns, without a copy. Errors as save and
  // CheckpointWriter::save.
  std::string save_now(const CheckpointContent& content, int64_t removable_up_to);

  // Returns when nothing is under way; throws the error of the last save, once.
  void wait();

  // Whether a save is under way. Not collective.
  bool saving() const;

 private:
  struct Job {
    CheckpointContent content;
    int64_t removable_up_to = 0;
    int64_t reserve_bytes = 0;  // not 0: no save, only reserve
    bool pinned = false;
  };

  void begin(Job job);
  void copy_state(const CheckpointContent& from, CheckpointContent& to);
  void run();
  std::string perform(const Job& job);
  void finish_previous();

  CheckpointWriter writer_;
  const std::chrono::milliseconds wait_timeout_;
  SnapshotBuffer state_buffer_, own_buffer_;  // the background's while a job is under way

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;  // from save until its end
  std::string error_;       // of the save that ended, until it is thrown
  bool ending_ = false;
  std::thread thread_;  // started by the first save
};

}  // namespace muster
