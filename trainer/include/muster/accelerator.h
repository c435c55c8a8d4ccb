// The one object of a distributed trainer: where it runs, what it prepares, what it reports.
//
//   int train(int argc, char** argv) {
//     muster::Accelerator accelerator;
//     Net net;
//     auto model = accelerator.prepare(net);
//     auto optimizer = accelerator.prepare(torch::optim::Adam(net->parameters(), 1e-3));
//     auto sampler = accelerator.prepare(
//         muster::ShardedSampler({.dataset_size = 1437, .batch_size = 16, .seed = 1}));
//     accelerator.load_state();
//     while (sampler->epoch() < 40) {
//       while (auto batch = sampler->next_batch()) {
//         optimizer.zero_grad();
//         accelerator.backward(loss_of(model, *batch));
//         optimizer.step();
//       }
//       accelerator.save_state(sampler->epoch());
//     }
//     return 0;
//   }
//   int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
//
// The same program runs under Muster, under torchrun, with hand-set variables and alone: the place
// among the ranks comes from the environment (topology.h). The names are those of Python's
// Accelerate where it has them. All functions are for the training thread; those marked collective
// must be called by all ranks at the same point. Errors are exceptions derived from muster::Error.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/data_parallel.h"
#include "muster/safetensors.h"
#include "muster/sampler.h"
#include "muster/topology.h"

namespace muster {

struct AcceleratorOptions {
  bool cpu = false;  // stay on the CPU where LibTorch has a device
  DataParallelOptions data_parallel;

  std::chrono::milliseconds process_group_timeout = std::chrono::minutes(30);  // one collective
  std::chrono::milliseconds init_timeout = std::chrono::minutes(5);  // until all ranks have met

  // Where save_state writes when no worker says so in MUSTER_CHECKPOINT_DIR. Empty: without a
  // worker save_state throws.
  std::string checkpoint_dir;
  // What load_state reads when no worker says so in MUSTER_RESUME_FROM. Empty: the newest whole
  // checkpoint of the checkpoint directory.
  std::string resume_from;
  // Checkpoints to keep in the directory; 0: all. Under a worker one is removed only after the
  // coordinator holds it.
  int keep_checkpoints = 0;
  // Called on each rank as it passes a stage of a save ("prepared", "shard", "parts", "manifest",
  // "published"), to trace or time it.
  std::function<void(const char* stage)> on_checkpoint_stage;

  // Metrics are appended here as JSON lines too ({"name","step","value","time_ms","rank"}); all
  // ranks may share one file. Empty: none.
  std::string metrics_file;
  size_t buffered_metrics_max = 65'536;  // points; more are dropped and counted

  bool handle_sigterm = true;  // SIGTERM makes should_stop() true instead of ending the process
};

enum class Reduction { sum, mean, max, min };

struct LogOptions {
  bool all_ranks = false;  // a series per rank; by default only the main process reports
};

// An optimizer that Accelerator::prepare returned. Copies share it.
class PreparedOptimizer {
 public:
  explicit PreparedOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}

  void step() { optimizer_->step(); }
  // Lets the gradients go. Unlike torch's own it also works on gradients inside DDP's buckets.
  void zero_grad();
  torch::optim::Optimizer& unwrap() { return *optimizer_; }

 private:
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

// State of the user's own that travels with the checkpoints.
struct CustomState {
  std::function<TensorMap()> save;             // asked on the main process
  std::function<void(const TensorMap&)> load;  // called on every rank
};

template <typename T>
concept ModuleHandle =
    std::is_base_of_v<torch::nn::Module, std::remove_reference_t<decltype(*std::declval<T&>())>>;

template <typename T>
concept OptimizerType = std::derived_from<T, torch::optim::Optimizer>;

class Accelerator {
 public:
  // Collective: reads the environment, meets the other ranks, picks the device, connects to the
  // worker. Throws TopologyError or CommunicationError.
  explicit Accelerator(const AcceleratorOptions& options = {});
  ~Accelerator();  // end_training()
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  // ---- Where this process is ----
  const Topology& topology() const;
  at::Device device() const;
  int process_index() const { return topology().rank; }
  int num_processes() const { return topology().world_size; }
  int local_process_index() const { return topology().local_rank; }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  bool is_last_process() const { return process_index() == num_processes() - 1; }

  // ---- Preparing; collective. What was prepared is part of save_state, in this order ----
  // Moves the module to the device, gives all ranks rank 0's weights, averages gradients in
  // backward.
  template <ModuleHandle Holder>
  PreparedModel<Holder> prepare(Holder module) {
    auto shared = share_module(*module);
    return PreparedModel<Holder>(std::move(module), std::move(shared));
  }
  template <OptimizerType Optimizer>
  PreparedOptimizer prepare(Optimizer optimizer) {
    return prepare_shared(std::make_shared<Optimizer>(std::move(optimizer)));
  }
  // Gives the sampler this rank's shard.
  std::shared_ptr<ShardedSampler> prepare(ShardedSampler sampler);
  // Throws std::invalid_argument when the name is taken or contains '/'.
  void register_for_checkpointing(const std::string& name, CustomState state);

  // ---- Training ----
  void backward(const at::Tensor& loss) { loss.backward(); }
  // Seeds all generators; with device_specific each rank gets a seed of its own.
  void set_seed(uint64_t seed, bool device_specific = false);

  // ---- Between the ranks; collective ----
  void wait_for_everyone();
  // Tensors of equal shape from all ranks, joined along dimension 0; a 0-d tensor from each becomes
  // one tensor [num_processes].
  at::Tensor gather(const at::Tensor& tensor);
  std::vector<double> gather(double value);
  // Reduces over the ranks; the same result on every rank. mean of integers throws.
  at::Tensor reduce(const at::Tensor& tensor, Reduction reduction = Reduction::mean);
  double reduce(double value, Reduction reduction = Reduction::mean);

  // ---- Speech ----
  // One point of a series, to the worker and to metrics_file. Never waits and never fails: when the
  // worker is slow, points are dropped and counted (dropped_metrics).
  void log(std::string_view name, double value, int64_t step, const LogOptions& options = {});
  // How far the run is, for people; total 0 when not known. From the main process.
  void progress(int64_t step, int64_t total);
  uint64_t dropped_metrics() const;
  // A line on stdout from the local main process.
  void print(const std::string& line);

  // ---- Notices; collective: true on all ranks as soon as one of them was told ----
  // The job is being stopped (SIGTERM or the worker's notice): save and leave. Costs one small
  // all-reduce (about 0.2 ms with Gloo on one machine); call it every so many steps.
  bool should_stop();
  // The worker asks for a checkpoint. True until the next save_state.
  bool should_checkpoint();
  // Whether this rank was told to stop. Not collective.
  bool stop_requested() const;

  // ---- Checkpoints; collective ----
  // Where save_state writes; empty when neither a worker nor the options name a directory. Not
  // collective.
  std::string checkpoint_dir() const;
  // Writes models, optimizers, samplers, registered state and the random numbers of every rank as
  // step-N, atomically, and returns its path; a second save of the same step returns at once.
  // Throws CheckpointError on all ranks when one cannot write; earlier checkpoints stay.
  std::string save_state(int64_t step);
  // Goes on from MUSTER_RESUME_FROM, else resume_from, else the newest whole checkpoint of the
  // directory; returns its step, or nullopt when there is none. On the same world size the run then
  // continues bit for bit; on another one the random numbers are seeded anew from step and rank.
  // Throws CheckpointError or FormatError on all ranks when it does not fit or is damaged.
  std::optional<int64_t> load_state();

  // Sends what is buffered (at most 2 s) and ends reporting. The destructor calls it.
  void end_training();

 private:
  struct State;

  std::shared_ptr<DataParallel> share_module(torch::nn::Module& module);
  PreparedOptimizer prepare_shared(std::shared_ptr<torch::optim::Optimizer> optimizer);

  std::unique_ptr<State> state_;
};

}  // namespace muster
