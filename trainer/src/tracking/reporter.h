// Carries metrics, progress and notices between the training thread and the local worker.
//
// Owns one thread, the trainer socket (docs/protocol.md) and the JSON-lines metrics file. The
// public functions only access memory under a short lock: they never wait for the socket, the disk
// or the worker, and never throw because of them. Buffers are bounded; dropped points are counted
// and reported. Without a socket and a file, nothing is buffered.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/tracking/tracker.h"

namespace muster {

struct ReporterOptions {
  std::string socket_path;   // empty: no worker
  std::string token_file;    // what the worker wants to see in the hello; empty: nothing
  std::string metrics_file;  // lines are appended; empty: no file
  int64_t job = 0;
  int64_t attempt = 0;
  int rank = 0;
  // Points in memory that the worker has not acknowledged; more are dropped.
  size_t buffered_points_max = 65'536;
  size_t batch_points_max = 1'000;  // about 100 bytes each, far below the protocol's 1 MiB per line
  std::chrono::milliseconds flush_interval{100};
  // How long close() waits for the worker to acknowledge the last points.
  std::chrono::milliseconds close_timeout{2'000};
};

class Reporter {
 public:
  explicit Reporter(const ReporterOptions& options);
  ~Reporter();  // close()
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Logs one point of a series. The name is sanitized for the worker (clean_metric_name).
  void log(std::string_view name, double value, int64_t step) {
    const ScalarValue point{name, value};
    log({&point, 1}, step);
  }
  // The same for the values of a step, with one lock and one clock read for all. If they do not all
  // fit, none is kept.
  void log(std::span<const ScalarValue> values, int64_t step);
  // Reports the progress of the run, for people; total is 0 if unknown. Only the newest report is
  // kept.
  void progress(int64_t step, int64_t total);
  // Notifies the worker that the checkpoint step-N was just renamed into place.
  void checkpoint_saved(int64_t step);

  // The worker announced that the job will be stopped.
  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }
  // The worker asked for a checkpoint since the last clear_checkpoint_request().
  bool checkpoint_requested() const {
    return checkpoint_requested_.load(std::memory_order_relaxed);
  }
  void clear_checkpoint_request() { checkpoint_requested_.store(false); }
  // The newest step that the coordinator has committed, or -1.
  int64_t committed_step() const { return committed_step_.load(std::memory_order_relaxed); }

  // Sets the handler for the worker's diagnosis requests. It runs on the reporter's thread and must
  // return at once. A request that arrived before there was a handler is passed to it now. When
  // this function returns, the previous handler is not running and will not be called again.
  void on_diagnose(std::function<void(int64_t number, const std::string& reason)> handler);
  // Sends the answer: a JSON object on one line, as produced by FlightRecorder.
  void diagnosis(int64_t number, const std::string& record);

  // Points dropped so far because the buffer was full.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Sends what is buffered, waits at most close_timeout for its acknowledgment, and ends the
  // thread. Later calls do nothing.
  void close();

 private:
  class Connection;  // used by the thread only

  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> checkpoint_requested_{false};
  std::atomic<int64_t> committed_step_{-1};
  std::atomic<uint64_t> dropped_{0};
  std::unique_ptr<Connection> connection_;
};

}  // namespace muster
