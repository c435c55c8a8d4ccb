// What this rank is doing when nothing seems to move: its collectives and the native stacks of all
// its threads, written to files at the worker's request, at a signal, or by itself when a
// collective does not end.
//
//   flight-rank-RRRRR.json  the newest collectives of each group, the threads (docs/profiling.md)
//   stacks-rank-RRRRR.txt   the stacks for people
//
// (RRRRR the rank in five digits), each by way of a temporary name and a rename, the newest record
// in place of an older one; and one line on stderr. `jobctl stack` reads them and says which rank
// the others wait for.
//
// Accelerator makes one. A program without it makes its own after its process group:
//
//   muster::FlightRecorder recorder({.rank = rank, .world_size = world_size,
//                                    .hang_after = std::chrono::minutes(15)});
//
// The recorder's thread sleeps in the kernel until it is needed. A record interrupts each thread by
// a signal (SIGRTMIN + 6) for some ten microseconds, also one that computes or waits in the kernel;
// a system call that the kernel does not restart after a signal (sleep, poll) may return early.
// `kill -s RTMIN+6 PID` asks for a record from outside.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace muster {

struct FlightRecorderOptions {
  // Where the files go, made when it is needed. Empty: MUSTER_DIAGNOSTICS_DIR, else "diagnostics"
  // in the working directory.
  std::string directory;
  int rank = 0;
  int world_size = 1;
  // A collective that runs for so long is taken for stuck, and so is a rank in a group that has
  // begun none for so long: it may be the one that the others wait for. One record per such
  // collective or pause. Below the time-out of the process group (half of it is a good choice),
  // so that the record shows the waiting and not its end. 0: never by itself.
  std::chrono::milliseconds hang_after{0};
};

class FlightRecorder {
 public:
  // Installs the signal's handler unless the program has one, and starts the thread. At most one in
  // a process at a time: std::logic_error otherwise.
  explicit FlightRecorder(const FlightRecorderOptions& options);
  // Finishes the record that is being written. No request may come any more.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Asks for a record and returns at once. `done` is called on the recorder's thread with the
  // record as JSON on one line, at most 64 KiB. Any thread.
  void request(const std::string& reason, std::function<void(const std::string& record)> done = {});
  // The same, and returns when the files are there. Never throws: a failure is told on stderr. Not
  // from `done`.
  void write(const std::string& reason) noexcept;
  // For the place where an error of the communication leaves training: as write(), but nothing when
  // the collective that failed has a record of its hanging, which shows more.
  void write_failure(const std::string& error) noexcept;

  const std::string& directory() const;
  // Whether this process has one now.
  static bool exists();

 private:
  struct Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace muster
