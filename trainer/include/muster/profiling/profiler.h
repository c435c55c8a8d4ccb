// Profiles training steps operator by operator: writes a Chrome trace per rank, and a summary that
// quantifies the overlap of communication and compute.
//
//   muster::Profiler profiler({.wait = 1, .warmup = 1, .active = 3, .repeat = 2,
//                              .directory = "runs/first/traces"});
//   while (training) {
//     forward_backward_step();
//     profiler.step();  // at the end of every step
//   }
//   profiler.stop();
//   std::cout << profiler.summaries().back().text();
//
// After each cycle of recorded steps a rank writes into `directory`
//   trace-rank-RRRRR-cycle-N.json    for chrome://tracing, Perfetto, TensorBoard
//   summary-rank-RRRRR-cycle-N.json  ProfileSummary::json()
// (RRRRR is the rank in five digits, N counts from 0), each under a temporary name and renamed.
// LibTorch's profiler (Kineto) records operators of all threads and, on CUDA, kernels. Outside the
// active steps nothing is recorded, and the profiler costs one comparison per step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster {

struct ProfileSummary;

// Steps count from 0; Profiler::step() ends one. After `skip_first` steps come cycles of `wait`
// steps that are not recorded, `warmup` steps that the profiler records but discards (its first
// steps are slower), and `active` steps that are recorded. Source: torch.profiler.schedule.
struct ProfileOptions {
  int64_t wait = 0;
  int64_t warmup = 0;
  int64_t active = 0;            // 0: no cycles; one trace from the start to stop()
  int64_t repeat = 0;            // cycles; 0: until stop()
  int64_t skip_first = 0;        // steps before the first cycle
  bool skip_first_wait = false;  // the first cycle has no `wait` steps

  std::string directory = "traces";  // created if missing
  bool record_shapes = false;        // the operators' input shapes, in the trace
  bool profile_memory = false;       // allocations, in the trace
  int operators_kept = 50;           // in a summary, by self time
  // Called after a cycle's files are written, on the thread that called step() or stop().
  std::function<void(const ProfileSummary&)> on_trace_ready;
};

// What the profiler does with a step.
enum class ProfileAction { none, warmup, record, record_and_save };
ProfileAction profile_action(const ProfileOptions& options, int64_t step);

// Seconds in which at least one activity of a kind ran on this rank, in any thread or stream.
struct Overlap {
  double communication = 0;  // a collective was running
  double compute = 0;        // an operator other than a collective or a wait was running
  double overlapped = 0;     // both at once
  // The fraction of communication that was hidden behind compute, 0 to 1; 1 if there was none.
  double fraction() const { return communication > 0 ? overlapped / communication : 1; }
};

// A time interval, in nanoseconds of any single clock. Intervals may be adjacent, overlap, and come
// in any order.
struct TimeInterval {
  int64_t begin = 0;
  int64_t end = 0;
};
// The lengths of the union of `communication`, of the union of `compute`, and of their
// intersection.
Overlap overlap_of(std::vector<TimeInterval> communication, std::vector<TimeInterval> compute);

// The result of a cycle on one rank.
struct ProfileSummary {
  struct Operator {
    std::string name;
    int64_t calls = 0;
    double self_seconds = 0;   // excluding operators called by it
    double total_seconds = 0;  // including them
    bool communication = false;
  };

  int rank = 0;
  int world_size = 1;
  int64_t cycle = 0;
  int64_t first_step = 0;  // the first recorded step
  int64_t steps = 0;
  double seconds = 0;                   // of recording
  Overlap overlap;                      // on CUDA: of the kernels; else of the operators on the CPU
  std::vector<Operator> operators;      // by self time, descending
  std::vector<Operator> communication;  // by total time, descending
  std::string trace_file;

  // For people, at most 80 columns wide.
  std::string text() const;
  // {"version":1,"rank":…,"overlap":{"communication_s":…,"compute_s":…,"overlapped_s":…,
  // "fraction":…},"operators":[…],…}
  std::string json() const;
};

// Use it from one thread. At most one per process at a time, because LibTorch has a single
// profiler.
class Profiler {
 public:
  // Starts at step 0. Throws std::invalid_argument for negative numbers, CheckpointError if the
  // directory cannot be created.
  explicit Profiler(const ProfileOptions& options, int rank = 0, int world_size = 1);
  // Calls stop() and ignores exceptions.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends a step. Throws CheckpointError if the files of a finished cycle cannot be written.
  void step();
  // Ends the recording; an unfinished cycle is written as far as it got. Later calls do nothing.
  void stop();

  // Of the finished cycles, oldest first.
  const std::vector<ProfileSummary>& summaries() const;

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace muster
