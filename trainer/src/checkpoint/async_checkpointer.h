// Asynchronous saves: the training thread copies the state, and one background thread runs the
// collective protocol of checkpoint.h over its own process group.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/snapshot.h"

namespace muster {

// Training thread only. save, save_now and wait are collective: all ranks must call them in the
// same order, because the ranks' background threads communicate in that order.
class AsyncCheckpointer {
 public:
  // `side_group` is used only for these saves (null for one rank), because its collectives run
  // concurrently with training's. save and wait wait for a save in flight, at most wait_timeout.
  AsyncCheckpointer(CheckpointWriterOptions options, ProcessGroupPtr side_group,
                    std::chrono::milliseconds wait_timeout);
  // Finishes a save in flight; an error that was not thrown yet goes to stderr and is a lost save.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;

  // Allocates memory for copies of this many bytes in the background, so that the first save stalls
  // training no longer than later ones. `pinned`: for tensors on a device. Not collective; call it
  // once the size of model and optimizer state is known. A wrong size only costs time.
  void reserve(int64_t bytes, bool pinned);
  // The same, for content like what will be saved: global tensors and shards.
  void reserve(const CheckpointContent& like);

  // Starts a save of the content as it is now and returns its future path. Waits for the previous
  // save; if that failed, throws its CheckpointError on all ranks and starts nothing. An error of
  // this save, even a failed copy on one rank, is thrown by the next call on all ranks.
  std::string save(const CheckpointContent& content, int64_t removable_up_to);

  // A synchronous save: durable when it returns, without a copy. Throws as save and
  // CheckpointWriter::save do.
  std::string save_now(const CheckpointContent& content, int64_t removable_up_to);

  // Waits for a save in flight; throws the error of the last save, once.
  void wait();

  // Whether a save is in flight. Not collective.
  bool saving() const;

  // Whether this object has published that step. Not collective.
  bool published(int64_t step) const;

 private:
  struct Job {
    CheckpointContent content;
    int64_t removable_up_to = 0;
    int64_t reserve_bytes = 0;  // not 0: only reserve memory, no save
    bool pinned = false;
  };

  CheckpointWriterOptions remembering(CheckpointWriterOptions options);
  void begin(Job job);
  void copy_state(const CheckpointContent& from, CheckpointContent& to);
  void run();
  std::string perform(const Job& job);
  void finish_previous();

  CheckpointWriter writer_;
  const std::chrono::milliseconds wait_timeout_;
  SnapshotBuffer state_buffer_, own_buffer_;  // owned by the background thread during a job

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;  // from save until its end
  std::set<int64_t> published_;
  std::string error_;  // of the finished save, until it is thrown
  bool ending_ = false;
  std::thread thread_;  // started by the first save
};

}  // namespace muster
