// Records what this rank is doing when training seems to hang: its collectives and the native
// stacks of all its threads, written to files at the worker's request, on a signal, or
// automatically when a collective does not finish.
//
//   flight-rank-RRRRR.json  the newest collectives of each group, and the threads
//                           (docs/profiling.md)
//   stacks-rank-RRRRR.txt   the stacks for people
//
// (RRRRR is the rank in five digits), each written under a temporary name and renamed; a new record
// replaces the previous one. Also prints one line to stderr. `jobctl stack` reads the files and
// shows which rank the others are waiting for.
//
// Accelerator creates one. A program without Accelerator creates its own after its process group:
//
//   muster::FlightRecorder recorder({.rank = rank, .world_size = world_size,
//                                    .hang_after = std::chrono::minutes(15)});
//
// The recorder's thread is blocked in the kernel until it is needed. Taking a record interrupts
// each thread, computing or blocked, with a signal (SIGRTMIN + 6) for about ten microseconds;
// system calls that the kernel does not restart after a signal (sleep, poll) may return early.
// `kill -s RTMIN+6 PID` requests a record from outside.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace muster {

struct FlightRecorderOptions {
  // Where the files go; created when needed. Empty: MUSTER_DIAGNOSTICS_DIR, else "diagnostics" in
  // the working directory.
  std::string directory;
  int rank = 0;
  int world_size = 1;
  // A collective that runs this long is considered stuck, and so is a rank in a group that has not
  // started one for this long: it may be the rank that the others are waiting for. One record per
  // such collective or pause. Choose it below the process group's timeout (half of it works well),
  // so that the record shows the wait and not the shutdown. 0: no automatic records.
  std::chrono::milliseconds hang_after{0};
};

class FlightRecorder {
 public:
  // Installs the signal handler unless the program has its own, and starts the thread. At most one
  // per process at a time: throws std::logic_error otherwise.
  explicit FlightRecorder(const FlightRecorderOptions& options);
  // Finishes a record in progress. No request may follow.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Requests a record and returns at once. `done` is called on the recorder's thread with the
  // record as one line of JSON, at most 64 KiB. Any thread.
  void request(const std::string& reason, std::function<void(const std::string& record)> done = {});
  // The same, but returns when the files are written. Never throws: failures are reported on
  // stderr. Do not call it from `done`.
  void write(const std::string& reason) noexcept;
  // For the place where a communication error ends training: like write(), but does nothing if the
  // failed collective already has a record from while it hung, which shows more.
  void write_failure(const std::string& error) noexcept;

  const std::string& directory() const;
  // Whether this process has a recorder now.
  static bool exists();

 private:
  struct Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace muster
