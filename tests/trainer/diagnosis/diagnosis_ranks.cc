// The program that the ranks of hang_test and profile_test run: diagnosis_ranks SCENARIO ARGUMENT…
#include <poll.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/stop_signal.h"
#include "diagnosis/rank_recorder.h"
#include "muster/base/run_main.h"
#include "muster/base/topology.h"
#include "muster/diagnosis/flight_recorder.h"
#include "muster/parallel/data_parallel.h"
#include "muster/profiling/profiler.h"
#include "parallel/data_parallel_factory.h"
#include "parallel/process_group.h"

// A stuck rank continues when this file appears.
std::string release_file;

// Functions whose names a report must show.
__attribute__((noinline)) void load_batch() {
  while (::access(release_file.c_str(), F_OK) != 0) ::poll(nullptr, 0, 50);
}

__attribute__((noinline)) void count_for_ever() {
  for (uint32_t i = 1;; ++i) {
    asm volatile("" : "+r"(i));  // the compiler counts no further than the processor
    if (i % (1 << 26) == 0 && ::access(release_file.c_str(), F_OK) == 0) return;
  }
}

namespace {

using Arguments = std::vector<std::string>;
using muster::ProcessGroupPtr;

ProcessGroupPtr open_group(const muster::Topology& topology, std::chrono::milliseconds timeout) {
  return muster::make_process_group(topology, at::kCPU, {timeout, std::chrono::seconds(60)});
}

void sum(const ProcessGroupPtr& group, int64_t elements) {
  std::vector<at::Tensor> tensors = {torch::ones({elements})};
  group->getBackend(c10::kCPU)->allreduce(tensors)->wait();
}

// Connects the worker and the recorder as an Accelerator does.
struct Recorded {
  Recorded(const muster::Topology& topology, const std::string& directory)
      : reporter(options(topology.rank)),
        recorder(
            reporter,
            {.directory = directory, .rank = topology.rank, .world_size = topology.world_size}) {}

  static muster::ReporterOptions options(int rank) {
    const auto worker = muster::WorkerEnvironment::from_environment();
    muster::ReporterOptions options;
    options.socket_path = worker.socket_path;
    options.job = worker.job;
    options.attempt = worker.attempt;
    options.rank = rank;
    return options;
  }

  muster::Reporter reporter;
  muster::RankRecorder recorder;
};

// ARGUMENTS: directory, how the last rank gets stuck. After three collectives of all ranks, the
// last rank does not join the fourth until the file "release" appears in the directory.
int stuck(const Arguments& arguments) {
  const auto topology = muster::Topology::from_environment();
  const ProcessGroupPtr group = open_group(topology, std::chrono::minutes(10));
  const Recorded recorded(topology, arguments.at(0));
  for (int i = 0; i < 3; ++i) sum(group, 1 << 20);
  const bool is_last = topology.rank == topology.world_size - 1;
  if (is_last && arguments.at(1) == "sleeping") load_batch();
  if (is_last && arguments.at(1) == "spinning") count_for_ever();
  sum(group, 1 << 20);
  return 0;
}

// ARGUMENTS: directory. The first rank fails; the last one learns of it only from the worker.
int deserted(const Arguments& arguments) {
  muster::watch_stop_signal();
  const auto topology = muster::Topology::from_environment();
  const ProcessGroupPtr group = open_group(topology, std::chrono::minutes(10));
  const Recorded recorded(topology, arguments.at(0));
  for (int i = 0; i < 3; ++i) sum(group, 1 << 20);
  if (topology.rank == 0) return 3;
  load_batch();
  return 0;
}

// ARGUMENTS: directory. As above, but with a group timeout and without a request.
int timeout(const Arguments& arguments) {
  const auto topology = muster::Topology::from_environment();
  const ProcessGroupPtr group = open_group(topology, std::chrono::seconds(6));
  muster::FlightRecorder recorder({.directory = arguments.at(0),
                                   .rank = topology.rank,
                                   .world_size = topology.world_size,
                                   .hang_after = std::chrono::seconds(2)});
  for (int i = 0; i < 3; ++i) sum(group, 1 << 20);
  if (topology.rank == topology.world_size - 1) load_batch();
  try {
    sum(group, 1 << 20);
  } catch (const std::exception&) {
    recorder.write_failure("the collective failed");
    std::ofstream(arguments.at(0) + "/failed-" + std::to_string(topology.rank)) << "yes";
    throw;
  }
  return 0;
}

// ARGUMENTS: directory, width. Trains a few steps of data parallelism in a profile.
int profile(const Arguments& arguments) {
  const auto topology = muster::Topology::from_environment();
  const ProcessGroupPtr group = open_group(topology, std::chrono::minutes(5));
  const int64_t width = std::stol(arguments.at(1));
  torch::nn::Sequential model;
  for (int i = 0; i < 4; ++i) model->push_back(torch::nn::Linear(width, width));
  const auto data_parallel = muster::make_data_parallel(*model, group, {});
  const at::Tensor input = torch::ones({64, width});
  muster::Profiler profiler(
      {.wait = 1, .warmup = 1, .active = 2, .repeat = 2, .directory = arguments.at(0)},
      topology.rank, topology.world_size);
  for (int step = 0; step < 10; ++step) {
    data_parallel->before_forward();
    const at::Tensor loss = model->forward(input).square().mean();
    data_parallel->after_forward();
    loss.backward();
    for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad().reset();
    profiler.step();
  }
  profiler.stop();
  std::printf("cycles %zu\n", profiler.summaries().size());
  std::printf("%s", profiler.summaries().back().text().c_str());
  return 0;
}

int scenario(int argc, char** argv) {
  const std::map<std::string, int (*)(const Arguments&)> scenarios = {
      {"stuck", stuck}, {"deserted", deserted}, {"timeout", timeout}, {"profile", profile}};
  release_file = std::string(argv[2]) + "/release";
  return scenarios.at(argv[1])(Arguments(argv + 2, argv + argc));
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, scenario); }
