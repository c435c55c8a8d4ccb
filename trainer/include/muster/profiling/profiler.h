// Where the time of a step goes, operator by operator: a Chrome trace per rank, and a summary with
// the overlap of communication and compute as a number.
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
// (RRRRR the rank in five digits, N counts from 0), by way of a temporary name and a rename.
// The recording is LibTorch's (Kineto): operators of all threads, and on CUDA the kernels. Nothing
// is recorded outside the active steps; the profiler then costs one comparison a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster {

struct ProfileSummary;

// Steps count from 0 and are ended by Profiler::step(). After `skip_first` steps come cycles of
// `wait` steps that are not recorded, `warmup` steps in which the profiler runs but what it sees is
// thrown away (its first steps are slower), and `active` steps that are recorded.
// Source: torch.profiler.schedule.
struct ProfileOptions {
  int64_t wait = 0;
  int64_t warmup = 0;
  int64_t active = 0;            // 0: no cycles; everything from the start to stop() is one trace
  int64_t repeat = 0;            // cycles; 0: until stop()
  int64_t skip_first = 0;        // steps before the first cycle
  bool skip_first_wait = false;  // the first cycle comes without its `wait` steps

  std::string directory = "traces";  // made when it is missing
  bool record_shapes = false;        // the operators' input sizes, in the trace
  bool profile_memory = false;       // allocations, in the trace
  int operators_kept = 50;           // in a summary: those with the most self time
  // Called after a cycle's files were written, on the thread that called step() or stop().
  std::function<void(const ProfileSummary&)> on_trace_ready;
};

// What a step is to the recording.
enum class ProfileAction { none, warmup, record, record_and_save };
ProfileAction profile_action(const ProfileOptions& options, int64_t step);

// Seconds in which something of a kind ran on this rank, whatever the number of threads or streams.
struct Overlap {
  double communication = 0;  // some collective was running
  double compute = 0;        // some operator was running that is no collective and no waiting
  double overlapped = 0;     // both at once
  // Part of the communication that was hidden behind compute, 0 to 1; 1 when there was none.
  double fraction() const { return communication > 0 ? overlapped / communication : 1; }
};

// A piece of time, in nanoseconds of any one clock. Pieces may touch, overlap and come in any
// order.
struct TimeInterval {
  int64_t begin = 0;
  int64_t end = 0;
};
// Lengths of the unions of `communication` and of `compute` and of their intersection.
Overlap overlap_of(std::vector<TimeInterval> communication, std::vector<TimeInterval> compute);

// What a cycle came to on one rank.
struct ProfileSummary {
  struct Operator {
    std::string name;
    int64_t calls = 0;
    double self_seconds = 0;   // without the operators that it called
    double total_seconds = 0;  // with them
    bool communication = false;
  };

  int rank = 0;
  int world_size = 1;
  int64_t cycle = 0;
  int64_t first_step = 0;  // of the recorded ones
  int64_t steps = 0;
  double seconds = 0;                   // of recording
  Overlap overlap;                      // on CUDA: of the kernels; else of the operators on the CPU
  std::vector<Operator> operators;      // the most self time first
  std::vector<Operator> communication;  // the most total time first
  std::string trace_file;

  // For people, at most 80 columns wide.
  std::string text() const;
  // {"version":1,"rank":…,"overlap":{"communication_s":…,"compute_s":…,"overlapped_s":…,
  // "fraction":…},"operators":[…],…}
  std::string json() const;
};

// For one thread; at most one in a process at a time, as LibTorch has one recording.
class Profiler {
 public:
  // Begins with step 0. Throws std::invalid_argument for negative numbers, CheckpointError when the
  // directory cannot be made.
  explicit Profiler(const ProfileOptions& options, int rank = 0, int world_size = 1);
  // stop(), without exceptions.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends a step. Throws CheckpointError when a finished cycle's files cannot be written.
  void step();
  // Ends the recording; a cycle that was begun is written as far as it got. Later calls do nothing.
  void stop();

  // Of the finished cycles, oldest first.
  const std::vector<ProfileSummary>& summaries() const;

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace muster
