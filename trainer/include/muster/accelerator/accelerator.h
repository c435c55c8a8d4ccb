// The central object of a distributed trainer: its place, what it prepares, what it reports.
//
//   int train(int argc, char** argv) {
//     muster::Accelerator accelerator({.mixed_precision = muster::Precision::bf16});
//     Net net;
//     auto [model, optimizer, loader, scheduler] = accelerator.prepare(
//         net, muster::AdamW(net->parameters(), {.lr = 1e-3}),
//         muster::DataLoader(dataset, {.batch_size = 16, .shuffle = true, .seed = 1}),
//         muster::cosine_schedule({.total_steps = 4000}));
//     accelerator.load_state();
//     while (loader.epoch() < 40) {
//       for (auto& batch : loader) {
//         accelerator.backward(loss_of(model(batch.data), batch.target));
//         optimizer.step();
//         scheduler.step();
//         optimizer.zero_grad();
//       }
//       accelerator.save_state(loader.epoch());
//     }
//     return 0;
//   }
//   int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
//
// The same program runs under Muster, under torchrun, with variables set by hand, and alone: rank
// and world size come from the environment (topology.h). Names are those of Python's Accelerate if
// it has them; docs/trainer.md lists all. Call everything from the training thread; all ranks must
// call the functions marked collective at the same point. Errors are exceptions derived from
// muster::Error, or std::invalid_argument for a wrong argument.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/accelerator/options.h"
#include "muster/accelerator/preparable.h"
#include "muster/accelerator/prepared.h"
#include "muster/base/topology.h"
#include "muster/checkpoint/checkpoint_options.h"
#include "muster/checkpoint/model_files.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/collectives/batch_plan.h"
#include "muster/collectives/executable_batch_size.h"
#include "muster/collectives/reduction.h"
#include "muster/data/data_loader.h"
#include "muster/data/sampler.h"
#include "muster/memory/deferred_init.h"
#include "muster/optim/clip_grad.h"
#include "muster/optim/optimizers.h"
#include "muster/optim/schedulers.h"
#include "muster/parallel/local_sgd.h"
#include "muster/profiling/profiler.h"
#include "muster/tracking/logger.h"
#include "muster/tracking/step_timer.h"
#include "muster/tracking/tracker.h"
#include "muster/values/nested.h"

namespace muster {

class Collectives;  // src/collectives

struct LogOptions {
  bool all_ranks = false;  // one series per rank; by default only the main process reports
};

// Additional state that is saved in checkpoints.
struct CustomState {
  std::function<TensorMap()> save;             // called on the main process
  std::function<void(const TensorMap&)> load;  // called on every rank
};

// What load_state reads, and how much of it.
struct LoadStateOptions {
  // A checkpoint (step-N), or a folder of them: then the newest, never an older one in its place.
  std::string from;
  // False: weights, buffers and optimizer state that fit by name and shape, alone; for another model
  // or another optimizer.
  bool strict = true;
};

// What load_state has read.
struct LoadedState {
  int64_t step = 0;
  std::string path;
  // Names are those in the checkpoint: "model/fc.weight", "optim/exp_avg/fc.weight". `missing` has
  // "optim/fc.weight" for a parameter without saved state, or with one that its optimizer cannot
  // continue, where there is state of its optimizer. `unexpected` has what the program has no place for.
  LoadReport report;
};

// Where there are several ranks, a process has one at a time; another may follow it. A process alone
// may have several.
class Accelerator {
 public:
  // Collective: reads the environment, connects to the other ranks, selects the device, connects to
  // the worker. Throws TopologyError or CommunicationError, and Error beside a living one.
  explicit Accelerator(const AcceleratorOptions& options = {});
  // Calls end_training(). During stack unwinding, it makes the other ranks' collectives fail at
  // once.
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  // ---- Place of this process ----
  const Topology& topology() const;
  at::Device device() const;
  int process_index() const { return topology().rank; }
  int num_processes() const { return topology().world_size; }
  int local_process_index() const { return topology().local_rank; }
  bool use_distributed() const { return num_processes() > 1; }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  bool is_last_process() const { return process_index() == num_processes() - 1; }
  const AcceleratorOptions& options() const;
  Precision mixed_precision() const;
  std::string project_dir() const { return options().project.project_dir; }
  std::string logging_dir() const;

  // ---- Preparing; collective. save_state saves what was prepared, in this order ----

  // Moves the module to the device, broadcasts rank 0's weights, averages gradients in backward.
  // Throws CommunicationError on all ranks if they built different models, std::invalid_argument
  // for one that is already prepared or that no shared_ptr owns.
  template <ModuleHandle Holder>
  PreparedModel<Holder> prepare(Holder module) {
    auto frame = frame_module(*module);
    return PreparedModel<Holder>(std::move(module), std::move(frame));
  }
  // A module without memory: it gets its values here, with zero3 only this rank's shards. Seed all
  // ranks alike before deferred_init.
  template <ModuleHandle Holder>
  PreparedModel<Holder> prepare(Deferred<Holder> model) {
    auto frame =
        frame_module(*model, [&model](const PlaceValue& place) { model.materialize(place); });
    return PreparedModel<Holder>(model.module(), std::move(frame));
  }
  // Before or after its model. Throws std::invalid_argument for one without parameters (for example
  // moved from) and for a parameter that a prepared optimizer already steps: give one optimizer
  // several groups, or release the earlier one with free_memory().
  template <typename Optimizer>
  requires OptimizerType<std::remove_cvref_t<Optimizer>> PreparedOptimizer
  prepare(Optimizer&& optimizer) {
    using Type = std::remove_cvref_t<Optimizer>;
    constexpr bool can_be_taken = std::constructible_from<Type, Optimizer>;
    static_assert(!std::is_same_v<Type, torch::optim::LBFGS>,
                  "prepare(): checkpoints cannot hold the state of torch::optim::LBFGS yet: use "
                  "another optimizer");
    static_assert(can_be_taken,
                  "prepare() takes the optimizer over: give it std::move(optimizer), or make it in "
                  "the call");
    if constexpr (can_be_taken) {
      return prepare_shared(std::make_shared<Type>(std::forward<Optimizer>(optimizer)));
    }
  }
  // The same for a std::unique_ptr or std::shared_ptr of an optimizer.
  template <typename Pointer>
  requires prepare_detail::IsOptimizerPointer<Pointer>::value PreparedOptimizer
  prepare(Pointer optimizer) {
    return prepare_shared(std::move(optimizer));
  }
  // Gives the loader this rank's share of the samples; its batches are then on device().
  template <AnyDataset Dataset, typename Collate>
  DataLoader<Dataset, Collate> prepare(DataLoader<Dataset, Collate> loader) {
    attach_loader(loader.core());
    return loader;
  }
  // Attaches the schedule to the most recently prepared optimizer. Throws std::invalid_argument if
  // there is none.
  PreparedScheduler prepare(Schedule schedule);
  PreparedScheduler prepare(Schedule schedule, const PreparedOptimizer& optimizer);
  // Gives the sampler this rank's shard.
  std::shared_ptr<ShardedSampler> prepare(ShardedSampler sampler);
  // Anything else: a one-sentence compiler error.
  template <typename T>
  requires(!Preparable<std::remove_cvref_t<T>>) auto prepare(T&&) {
    return prepare_detail::refuse<std::remove_cvref_t<T>>();
  }
  // Several at once, left to right: auto [model, optimizer] = accelerator.prepare(net, Adam(…)).
  template <typename First, typename Second, typename... Others>
  requires(!std::is_same_v<std::decay_t<Second>, PreparedOptimizer>) auto prepare(
      First&& first, Second&& second, Others&&... others) {
    // Braces guarantee the order.
    return std::tuple<decltype(prepare(std::forward<First>(first))),
                      decltype(prepare(std::forward<Second>(second))),
                      decltype(prepare(std::forward<Others>(others)))...>{
        prepare(std::forward<First>(first)), prepare(std::forward<Second>(second)),
        prepare(std::forward<Others>(others))...};
  }
  // Throws std::invalid_argument if the name is taken or contains '/'. The template accepts
  // anything with state() and load_state(TensorMap), such as ExponentialMovingAverage, which must
  // outlive this object.
  void register_for_checkpointing(const std::string& name, CustomState state);
  template <typename Stateful>
  requires requires(Stateful& object, const TensorMap& saved) {
    { object.state() } -> std::convertible_to<TensorMap>;
    object.load_state(saved);
  }
  void register_for_checkpointing(const std::string& name, Stateful& object) {
    register_for_checkpointing(
        name, CustomState{[&object]() -> TensorMap { return object.state(); },
                          [&object](const TensorMap& saved) { object.load_state(saved); }});
  }
  template <typename Holder>
  Holder& unwrap_model(const PreparedModel<Holder>& model) {
    return model.unwrap();
  }
  // The model is unsharded on every rank while the result lives; see prepared.h. Collective.
  template <typename Holder>
  [[nodiscard]] FullParameters full_parameters(const PreparedModel<Holder>& model) {
    return FullParameters(model.frame());
  }
  // A profiler of this rank with torch.profiler's schedule; step it with the loop. See profiler.h.
  [[nodiscard]] Profiler profile(const ProfileOptions& options = {}) const {
    return Profiler(options, process_index(), num_processes());
  }
  // This rank's memory for the prepared models and optimizers; see model_sharding.h.
  MemoryUsage memory_usage() const;
  // Parameters and buffers by name, on the CPU: all of them on every rank. Collective for a sharded
  // model.
  template <typename Holder>
  TensorMap get_state_dict(const PreparedModel<Holder>& model) {
    return state_dict_of(*model.unwrap());
  }
  // Releases all that was prepared and the device's cache. A sharded module keeps its weights in its
  // shards: reading them is an error until it is prepared again, here or by a later Accelerator in any
  // stage, which takes them over; optimizer state is gone. Handles stay valid for models that are not
  // sharded, until these are prepared again; a released optimizer's step() throws Error.
  void free_memory();

  // ---- Training ----

  // Divides the loss by the number of micro-batches in the window, scales it if there is a
  // GradScaler, and runs backward. Collective if gradients are reduced.
  void backward(const at::Tensor& loss);

  // Detects NaN and infinity: throws NonFiniteLossError on all ranks if an element of the loss is
  // not finite on any of them, naming the step, the ranks and their values. Before backward, the
  // weights are still those of the last good step. Costs one small all-gather (0.01 ms with 2 ranks
  // on one machine, 0.1 ms over sockets) and waits for the device. Collective.
  void check_loss(const at::Tensor& loss, int64_t step);

  // One micro-batch of an accumulation window: while the scope lives, sync_gradients() tells
  // whether it is the window's last one, and only then are gradients reduced. The last batch of an
  // epoch ends the window. Put forward, backward and the steps inside.
  class Accumulation {
   public:
    ~Accumulation();
    Accumulation(const Accumulation&) = delete;
    Accumulation& operator=(const Accumulation&) = delete;

   private:
    friend class Accelerator;
    Accumulation(Accelerator& accelerator, std::vector<DataParallel*> models);
    std::vector<std::pair<std::shared_ptr<DataParallel::State>, bool>> models_;
  };
  template <typename... Holders>
  [[nodiscard]] Accumulation accumulate(const PreparedModel<Holders>&... models) {
    return Accumulation(*this, {&models.data_parallel()...});
  }
  // While it lives, backward accumulates gradients without reducing them.
  template <typename Holder>
  [[nodiscard]] NoSync no_sync(const PreparedModel<Holder>& model) {
    return NoSync(model);
  }
  // Ranks with fewer batches take part in the others' reductions while the scope lives; see
  // JoinUnevenInputs.
  template <typename... Holders>
  [[nodiscard]] JoinUnevenInputs join_uneven_inputs(const PreparedModel<Holders>&... models) {
    return JoinUnevenInputs({&models.data_parallel()...});
  }
  bool sync_gradients() const;
  int gradient_accumulation_steps() const;
  // Takes effect at the next window.
  void set_gradient_accumulation_steps(int steps);
  // Solves the contract for num_processes(), prints the equation on the main process, and sets the
  // accumulation steps. Throws std::invalid_argument with the alternatives if the batch is not
  // divisible.
  BatchPlan plan_batch(const BatchContract& contract);

  // For code outside a prepared model's forward (the loss, for example), in the run's precision.
  [[nodiscard]] Autocast autocast() const;
  // Divides the gradients of all prepared optimizers by the scale, once per step. No effect without
  // a scaler.
  void unscale_gradients();
  // Unscales the optimizers of these parameters first. Returns the norm before clipping, 0-d, without waiting for the device. Call it
  // only if sync_gradients().
  at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                             double norm_type = 2.0);
  void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
  // Whether any prepared optimizer skipped its last step(). Waits for the device.
  bool optimizer_step_was_skipped() const;
  GradScaler* scaler();  // nullptr unless the precision is fp16

  // Seeds all generators; with device_specific, each rank gets a different seed.
  void set_seed(uint64_t seed, bool device_specific = false, bool deterministic = false);
  // Broadcasts rank 0's generator states. Collective.
  void synchronize_rng_states();
  // The loader without its first batches, for the next epoch only.
  template <AnyDataset Dataset, typename Collate>
  auto skip_first_batches(DataLoader<Dataset, Collate> loader, int64_t batches) {
    return muster::skip_first_batches(std::move(loader), batches);
  }
  // Calls fn(batch_size) with decreasing sizes until it fits on all ranks. Collective; see
  // executable_batch_size.h.
  int64_t find_executable_batch_size(int64_t starting_batch_size,
                                     const std::function<void(int64_t batch_size)>& fn);

  // ---- Between the ranks; collective. Values are Nested (nested.h) ----
  void wait_for_everyone();
  // Tensors of all ranks, concatenated along dimension 0 in rank order; 0-d tensors become one
  // tensor [num_processes]. Shapes must be equal; see pad_across_processes.
  template <Nested T>
  T gather(const T& value) {
    return with_tensors(value, gather_tensors(flatten_tensors(value)));
  }
  std::vector<double> gather(double value);
  // As gather, without the samples that the loader repeated to fill the epoch's last batch.
  template <Nested T>
  T gather_for_metrics(const T& value) {
    return with_tensors(value, gather_metric_tensors(flatten_tensors(value)));
  }
  // Reduces over the ranks; the same result on every rank. mean of integers throws.
  template <Nested T>
  T reduce(const T& value, Reduction reduction = Reduction::mean, double scale = 1.0) {
    return with_tensors(value, reduce_tensors(flatten_tensors(value), reduction, scale));
  }
  double reduce(double value, Reduction reduction = Reduction::mean);
  // Pads dimension dim to the largest size on any rank.
  template <Nested T>
  T pad_across_processes(const T& value, int64_t dim = 0, double pad_index = 0,
                         bool pad_first = false) {
    return with_tensors(value, pad_tensors(flatten_tensors(value), dim, pad_index, pad_first));
  }
  template <Nested T>
  T broadcast(const T& value, int from_process = 0) {
    return with_tensors(value, broadcast_tensors(flatten_tensors(value), from_process));
  }
  // Bytes of any kind and length (JSON, say), from every rank.
  std::vector<std::string> gather_object(const std::string& object);
  std::vector<std::string> broadcast_object_list(std::vector<std::string> objects,
                                                 int from_process = 0);
  // This rank's part of a list, a map of lists, or of dimension 0 of tensors. Not collective.
  template <typename T>
  T split_between_processes(const T& inputs, bool apply_padding = false) const {
    return muster::split_between_processes(inputs, process_index(), num_processes(), apply_padding);
  }
  // Any rank may set it; check_trigger() then returns true once on all ranks. Only the check is
  // collective.
  void set_trigger();
  bool check_trigger();

  // Run fn on one rank only. Not collective.
  template <typename F>
  void run_on_main(F&& fn) const {
    if (is_main_process()) std::forward<F>(fn)();
  }
  template <typename F>
  void run_on_local_main(F&& fn) const {
    if (is_local_main_process()) std::forward<F>(fn)();
  }
  template <typename F>
  void run_on_last(F&& fn) const {
    if (is_last_process()) std::forward<F>(fn)();
  }
  template <typename F>
  void run_on_process(int index, F&& fn) const {
    if (process_index() == index) std::forward<F>(fn)();
  }
  // The main process runs the scope first, then the others (for example to prepare a cache).
  // Collective.
  class FirstScope {
   public:
    ~FirstScope();
    FirstScope(const FirstScope&) = delete;
    FirstScope& operator=(const FirstScope&) = delete;

   private:
    friend class Accelerator;
    FirstScope(Accelerator& accelerator, bool first);
    std::shared_ptr<Collectives> collectives_;  // of an Accelerator that may end first
    bool first_;
    int process_;  // a forked child does not join its parent's ranks
  };
  [[nodiscard]] FirstScope main_process_first() { return {*this, is_main_process()}; }
  [[nodiscard]] FirstScope local_main_process_first() { return {*this, is_local_main_process()}; }

  // ---- Metrics and messages ----

  // Starts the trackers of AcceleratorOptions::log_with; the first log() does so with no config.
  void init_trackers(const std::string& project_name, const TrackerConfig& config = {});
  // nullptr if the run has none of that name.
  Tracker* get_tracker(std::string_view name);
  // Points of series, to the worker, metrics_file and trackers. Never blocks or fails: points that
  // do not fit into the queues are dropped and counted (dropped_metrics).
  void log(std::string_view name, double value, int64_t step, const LogOptions& options = {});
  void log(std::initializer_list<ScalarValue> values, int64_t step, const LogOptions& options = {});
  void log(std::span<const ScalarValue> values, int64_t step, const LogOptions& options = {});
  // Means over steps and ranks. add_metric only accumulates, without waiting for the device;
  // weight: the number of samples behind the value, so that batches of different sizes are weighted
  // correctly. log_metrics counts a step: every log_metrics_every-th call reduces all means in one
  // packed reduction, logs them at `step` and returns them, the same on all ranks; other calls
  // return nothing. Only log_metrics is collective.
  void add_metric(std::string_view name, const at::Tensor& value, double weight = 1);
  void add_metric(std::string_view name, double value, double weight = 1);
  std::vector<std::pair<std::string, double>> log_metrics(int64_t step);
  // To the trackers that support them, from the main process. The first two wait for the device.
  void log_histogram(std::string_view name, const at::Tensor& values, int64_t step);
  void log_image(std::string_view name, const at::Tensor& image, int64_t step,
                 ImageLayout layout = ImageLayout::chw);
  void log_text(std::string_view name, const std::string& text, int64_t step);
  void log_hparams(const TrackerConfig& config, const std::map<std::string, double>& metrics);
  // The run's progress, for display; total 0 if unknown. From the main process.
  void progress(int64_t step, int64_t total);
  uint64_t dropped_metrics() const;
  // A line on stdout from the local main process.
  void print(const std::string& line);
  // Prefixes lines with the rank; see logger.h.
  Logger get_logger(const std::string& name);
  // Breaks down the time of a step. This class measures data, compute and checkpoint time; a step
  // ends with the prepared optimizer's step().
  StepTimer& step_timer();

  // ---- Notices; collective: true on all ranks as soon as one has received it ----
  // The job is being stopped (SIGTERM or the worker's notice): save and exit. Costs one small
  // all-reduce (about 0.2 ms with Gloo on one machine), so call it every few steps.
  bool should_stop();
  // The worker has requested a checkpoint. True until the next save_state.
  bool should_checkpoint();
  // Whether this rank has received the stop notice. Not collective.
  bool stop_requested() const;

  // ---- Checkpoints; collective ----
  // Where save_state writes; empty if neither a worker nor the options name a directory. Not
  // collective.
  std::string checkpoint_dir() const;
  // Writes models, optimizers, schedules, loaders, the scaler, registered state and every rank's
  // generator states as step-N, atomically, and returns its path. A step that this run has saved or
  // loaded is never replaced: a second save of it returns at once if no optimizer stepped and
  // nothing was loaded since and step-N is still there, else it throws on all ranks. Call it between optimizer steps: gradients of an unfinished window are not
  // saved. Throws CheckpointError on all ranks if one cannot write; earlier checkpoints stay. With
  // asynchronous saves, the checkpoint appears later, and the next call throws the error; that of the last save
  // is end_training()'s result.
  std::string save_state(int64_t step, const SaveOptions& options = {});
  // With save_iteration() for the step.
  std::string save_state() { return save_state(save_iteration()); }
  // One more than the last step saved or loaded; before that, ProjectConfiguration::iteration.
  int64_t save_iteration() const;
  // Waits until the last save is durable on all ranks.
  void wait_for_checkpoint();
  // Resumes from MUSTER_RESUME_FROM, else resume_from, else the newest intact checkpoint of the
  // directory: damaged ones are skipped with a line on stderr. Returns its step, or nullopt if the
  // directory holds no checkpoint at all. On the same world size the run then continues bit for
  // bit; on another one, the generators are reseeded from step and rank. Throws CheckpointError on
  // all ranks if it does not fit, if the named one is damaged, or if none in the directory is
  // intact: to start over on purpose, move the directory away or set another checkpoint_dir.
  std::optional<int64_t> load_state();
  // Loads what is named, whatever the worker, resume_from and the checkpoint directory have: to start
  // from another run's state. A job that may be restarted asks for its own first:
  //
  //   if (!accelerator.load_state()) accelerator.load_state({.from = "base"});
  //
  // Strict, it is as load_state() of that checkpoint. Otherwise schedules, scaler, learning rates,
  // registered state, positions in the data, generators and save_iteration() stay as they are, and the
  // report lists what was loaded, missing, unexpected and of another shape, the same on all ranks.
  // Throws CheckpointError on all ranks if there is no checkpoint, or it is damaged or, strict, does
  // not fit; std::invalid_argument without `from`. What was loaded until then stays loaded.
  LoadedState load_state(const LoadStateOptions& options);
  // Called on all ranks, in order of registration, at the end of each load_state that has loaded
  // something: to derive what depends on the weights. May call collectives. If one throws, load_state
  // throws CheckpointError on all ranks. What it changes is saved with the next step, not with the one
  // that was loaded. free_memory() forgets it.
  void register_load_state_post_hook(std::function<void(const LoadedState& loaded)> hook);
  // Weights for others to read, from the main process: model.safetensors, or shards with an index.
  // A sharded model is gathered on the main process unit by unit. Collective.
  template <typename Holder>
  void save_model(const PreparedModel<Holder>& model, const std::string& directory,
                  const SaveModelOptions& save_options = {}) {
    save_module(*model.unwrap(), directory, save_options);
  }
  // Tensors as one safetensors file, from the main process.
  void save(const TensorMap& tensors, const std::string& path);

  // Finishes the last save, sends buffered metrics (at most 2 s), closes the trackers. False, on all
  // ranks, if that save failed: its error is on stderr, and run_main returns 1 in place of 0. The
  // destructor calls it.
  bool end_training();

 private:
  struct State;

  std::shared_ptr<ModelFrame> frame_module(
      torch::nn::Module& module, const std::function<void(const PlaceValue&)>& materialize = {});
  PreparedOptimizer prepare_shared(std::shared_ptr<torch::optim::Optimizer> optimizer);
  void attach_loader(std::shared_ptr<LoaderCore> loader);
  TensorMap state_dict_of(torch::nn::Module& module) const;
  void save_module(torch::nn::Module& module, const std::string& directory,
                   const SaveModelOptions& options);
  std::vector<at::Tensor> gather_tensors(const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> gather_metric_tensors(const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> reduce_tensors(const std::vector<at::Tensor>& tensors,
                                         Reduction reduction, double scale);
  std::vector<at::Tensor> pad_tensors(const std::vector<at::Tensor>& tensors, int64_t dim,
                                      double pad_index, bool pad_first);
  std::vector<at::Tensor> broadcast_tensors(const std::vector<at::Tensor>& tensors, int from);

  std::unique_ptr<State> state_;
};

}  // namespace muster
