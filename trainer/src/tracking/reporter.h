// Carries metrics, progress and notices between the training thread and the local worker.
//
// Owns one thread, the trainer socket (docs/protocol.md) and the JSON-lines metrics file. The
// public functions only touch memory under a short lock: they never wait for the socket, the disk
// or the worker, and never throw because of them. Buffers are bounded; what does not fit is counted
// and the count is reported. Without a socket and a file nothing is kept.
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
  std::string metrics_file;  // empty: no file; otherwise lines are appended to it
  int64_t job = 0;
  int64_t attempt = 0;
  int rank = 0;
  // Points in memory that are not yet acknowledged by the worker; further ones are dropped.
  size_t buffered_points_max = 65'536;
  size_t batch_points_max = 1'000;  // about 100 bytes each, far below the protocol's 1 MiB a line
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

  // One point of a series. The name is made acceptable to the worker (clean_metric_name).
  void log(std::string_view name, double value, int64_t step) {
    const ScalarValue point{name, value};
    log({&point, 1}, step);
  }
  // The same for the values of a step: one lock and one reading of the clock for all. When they do
  // not all fit, none is kept.
  void log(std::span<const ScalarValue> values, int64_t step);
  // How far the run is, for people; total 0 when it is not known. Only the newest one counts.
  void progress(int64_t step, int64_t total);
  // A hint that the checkpoint step-N was just renamed into place.
  void checkpoint_saved(int64_t step);

  // The worker said that the job will be stopped.
  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }
  // The worker asked for a checkpoint since the last clear_checkpoint_request().
  bool checkpoint_requested() const {
    return checkpoint_requested_.load(std::memory_order_relaxed);
  }
  void clear_checkpoint_request() { checkpoint_requested_.store(false); }
  // The newest step that the coordinator holds, or -1.
  int64_t committed_step() const { return committed_step_.load(std::memory_order_relaxed); }

  // Called on the reporter's thread when the worker asks what this rank is doing; must return at
  // once. A question that came before there was a handler is put to it here. When this function
  // returns, the handler before is not running and will not be called.
  void on_diagnose(std::function<void(int64_t number, const std::string& reason)> handler);
  // The answer: a JSON object on one line, as FlightRecorder gives it.
  void diagnosis(int64_t number, const std::string& record);

  // Points dropped so far because the buffer was full.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Sends what is buffered, waits for its acknowledgement at most close_timeout, ends the thread.
  // Later calls do nothing.
  void close();

 private:
  class Connection;  // what only the thread touches

  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> checkpoint_requested_{false};
  std::atomic<int64_t> committed_step_{-1};
  std::atomic<uint64_t> dropped_{0};
  std::unique_ptr<Connection> connection_;
};

}  // namespace muster
