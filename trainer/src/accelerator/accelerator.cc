// Constructs an Accelerator and prepares what it trains; see muster/accelerator/accelerator.h.
#include "muster/accelerator/accelerator.h"
#include "muster/exported/exported_model.h"

#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "accelerator/state.h"
#include "base/distinct_tensors.h"
#include "base/environment.h"
#include "base/stop_signal.h"
#include "device/device_driver.h"
#include "memory/module_device.h"
#include "muster/base/errors.h"
#include "parallel/data_parallel_factory.h"
#include "parallel/data_parallel_state.h"
#include "sharding/left_shards.h"

namespace muster {
namespace {

Precision choose_precision(const std::optional<Precision>& asked) {
  if (asked) return *asked;
  const std::string name = environment("ACCELERATE_MIXED_PRECISION");
  return name.empty() ? Precision::fp32 : parse_precision(name);
}

int choose_accumulation(int asked) {
  if (asked != 0) return asked;
  const std::string text = environment("ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
  if (text.empty()) return 1;
  char* end = nullptr;
  const long steps = std::strtol(text.c_str(), &end, 10);
  if (*end != '\0' || steps < 1 || steps > 1'000'000) {
    throw std::invalid_argument("ACCELERATE_GRADIENT_ACCUMULATION_STEPS='" + text +
                                "' is not a number of at least 1");
  }
  return static_cast<int>(steps);
}

ReporterOptions reporter_options(const AcceleratorOptions& options, const Topology& topology,
                                 const WorkerEnvironment& worker) {
  ReporterOptions reporter;
  reporter.socket_path = worker.socket_path;
  reporter.token_file = environment("MUSTER_RANK_TOKEN_FILE");
  reporter.metrics_file = options.metrics_file;
  reporter.job = worker.job;
  reporter.attempt = worker.attempt;
  reporter.rank = topology.rank;
  reporter.buffered_points_max = options.buffered_metrics_max;
  return reporter;
}

std::shared_ptr<GradientState> make_gradient_state(const AcceleratorOptions& options,
                                                   const Topology& topology, Precision precision) {
  auto state = std::make_shared<GradientState>();
  state->accumulation = options.gradient_accumulation;
  state->set_accumulation_steps(choose_accumulation(options.gradient_accumulation.num_steps));
  state->step_scheduler_with_optimizer = options.step_scheduler_with_optimizer;
  state->update_scale_at_each_step = options.update_scale_at_each_step;
  if (options.step_scheduler_per_process && !options.dataloader_config.split_batches) {
    state->scheduler_steps = topology.world_size;
  }
  state->stop_schedule_at_end =
      options.stop_schedule_at_end && !options.dataloader_config.split_batches;
  if (precision == Precision::fp16 && options.grad_scaler.enabled) {
    state->scaler.emplace(options.grad_scaler);
  }
  return state;
}

}  // namespace

AcceleratorOptions accelerate_compat(AcceleratorOptions options) {
  options.gradient_accumulation.weight_short_window = false;
  options.step_scheduler_per_process = true;
  options.dataloader_config.accelerate_last_step = true;
  options.data_parallel.broadcast_buffers_in_evaluation = true;
  options.update_scale_at_each_step = true;
  options.stop_schedule_at_end = true;
  return options;
}

Accelerator::State::State(const AcceleratorOptions& given)
    : options(given),
      topology(Topology::from_environment()),
      only_one(topology),
      worker(WorkerEnvironment::from_environment()),
      device(choose_device(
          {.name = given.device, .cpu = given.cpu, .local_rank = topology.local_rank})),
      precision(choose_precision(given.mixed_precision)),
      reporter(reporter_options(given, topology, worker)),
      gradients(make_gradient_state(given, topology, precision)),
      next_iteration(given.project.iteration) {}

Accelerator::Accelerator(const AcceleratorOptions& options)
    : state_(std::make_unique<State>(options)) {
  State& state = *state_;
  if (options.handle_sigterm) watch_stop_signal();
  state.group = make_process_group(
      state.topology, state.device,
      {options.process_group_timeout, options.init_timeout, options.network_interfaces});
  // Half of the timeout, so that the record shows the wait and not the shutdown. NCCL has its own
  // watchdog; the collectives of a plug-in's backend are not in the log, so a rank that trains would
  // seem stuck.
  state.diagnosis.emplace(
      state.reporter,
      FlightRecorderOptions{.rank = process_index(),
                            .world_size = num_processes(),
                            .hang_after = device().is_cpu() ? options.process_group_timeout / 2
                                                            : std::chrono::milliseconds(0)});
  state.collectives =
      std::make_shared<Collectives>(state.group, state.topology, state.device,
                                    options.debug || is_true(environment("ACCELERATE_DEBUG_MODE")));
  if (!options.log_with.empty()) {
    state.trackers.emplace(TrackerSetOptions{.log_with = options.log_with,
                                             .logging_dir = state.logging_dir(),
                                             .rank = state.topology.rank});
  }
  const bool has_double = collective_takes(state.device, MUSTER_ALL_REDUCE, at::kDouble);
  MetricAccumulatorOptions metrics{.every = options.log_metrics_every,
                                   .device = state.device,
                                   .dtype = has_double ? at::kDouble : at::kFloat};
  if (state.group) {
    metrics.sum_over_ranks = [collectives = state.collectives](const at::Tensor& sums) {
      return collectives->reduce({sums}, Reduction::sum)[0];
    };
    metrics.gather_texts = [collectives = state.collectives](const std::string& text) {
      return collectives->gather_object(text);
    };
  }
  state.metrics.emplace(std::move(metrics));
  state.gradients->after_step = [&state] { state.end_step(); };
  state.gradients->follow_groups = [&state](torch::optim::Optimizer& optimizer) {
    state.follow_groups(optimizer);
  };
  state.gradients->require_averaged = [&state](torch::optim::Optimizer& optimizer) {
    state.require_averaged(optimizer);
  };
  state.gradients->meet_in_step = [collectives = state.collectives](const std::string& point) {
    collectives->meet("optimizer.step(closure)", point);
  };
  state.gradients->mean_over_ranks = [collectives = state.collectives](const at::Tensor& loss) {
    return collectives->reduce({loss}, Reduction::mean)[0];
  };
  state.gradients->timer.restart();
}

Accelerator::~Accelerator() {
  // All that it has is the parent's: its connections, and threads that a child does not have.
  if (state_->process.is_child()) {
    (void)state_.release();
    return;
  }
  // Other ranks must not wait for one that exits by an exception.
  if (std::uncaught_exceptions() > state_->exceptions) {
    abort_process_group(state_->checkpoint_group);
    abort_process_group(state_->group);
  }
  try {
    end_training();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster: rank %d: %s\n", process_index(), error.what());
  }
  // Handles may outlive this object, but must not call into it.
  state_->gradients->after_step = nullptr;
  state_->gradients->follow_groups = nullptr;
  state_->gradients->require_averaged = nullptr;
  state_->gradients->meet_in_step = nullptr;
  state_->gradients->mean_over_ranks = nullptr;
}

const Topology& Accelerator::topology() const { return state_->topology; }
at::Device Accelerator::device() const { return state_->device; }
const AcceleratorOptions& Accelerator::options() const { return state_->options; }
Precision Accelerator::mixed_precision() const { return state_->precision; }

std::shared_ptr<ModelFrame> Accelerator::frame_module(
    torch::nn::Module& module, const std::function<void(const PlaceValue&)>& build) {
  if (module.weak_from_this().expired()) {
    throw std::invalid_argument(
        "prepare: no std::shared_ptr owns this module: create it with a holder (TORCH_MODULE) or "
        "std::make_shared");
  }
  for (const auto& known : state_->models) {
    if (&known->module() != &module) continue;
    throw std::invalid_argument(
        std::string("prepare: this model is already prepared") +
        (state_->sharded_of(module) == nullptr ? "" : " and sharded over the ranks") +
        ": use the one that prepare() returned, or release all with free_memory() first");
  }
  state_->follow_groups();
  const ZeroStage stage = state_->options.sharding.stage;
  const auto left = take_left_shards(module, state_->group, state_->device);
  std::function<void(const PlaceValue&)> materialize = build ? build : left;
  if (!materialize && stage == ZeroStage::zero3) materialize = state_->weights_in_file(module);
  // Only zero3 never needs unsharded parameters here.
  const bool by_parts = materialize && stage == ZeroStage::zero3;
  const at::Device target = state_->options.device_placement ? state_->device : at::kCPU;
  if (materialize && !by_parts) {
    materialize(place_on(target));
  }
  if (!build && !by_parts && state_->options.device_placement) move_module(module, state_->device);
  const bool by_buckets = stage == ZeroStage::none || stage == ZeroStage::zero1;
  state_->models.push_back(
      make_data_parallel(module, state_->group, state_->options.data_parallel,
                         by_buckets ? Reducing::by_buckets : Reducing::by_somebody));
  const std::shared_ptr<ShardedModel> sharded = state_->shard(state_->models.back());
  if (by_parts) {
    materialize([&, place_whole = place_on(target)](const at::Tensor& tensor, at::Tensor value) {
      if (sharded->find(tensor) != nullptr) {
        sharded->place(tensor, value);
      } else {
        place_whole(tensor, std::move(value));
      }
    });
    sharded->end_placing();
  }
  if (sharded) {
    DataParallel::State& frame = state_->models.back()->state();
    frame.facts.read(frame.all, /*memory_is_fixed=*/true);
  }
  state_->read_groups();
  state_->gradients->averages_gradients = num_processes() > 1;
  return std::make_shared<ModelFrame>(
      state_->models.back(), sharded,
      ModelFrame::Options{state_->device.type(), state_->precision, state_->options.autocast},
      state_->gradients);
}

// Of an exported net whose weights are still those of its file, and on all ranks of equal files; else none, and rank 0's are sent.
std::function<void(const PlaceValue&)> Accelerator::State::weights_in_file(
    torch::nn::Module& module) {
  auto* exported = dynamic_cast<ExportedModelImpl*>(&module);
  if (exported == nullptr) return {};
  const std::vector<std::string> all = all_gather_strings(group, exported->unchanged_weights());
  const bool are_equal = std::all_of(all.begin(), all.end(), [&](const std::string& each) {
    return !each.empty() && each == all[0];
  });
  if (!are_equal) return {};
  if (options.device_placement) {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& buffer : module.buffers()) {
      if (buffer.device() != device) assign_value(buffer, buffer.to(device));
    }
  }
  return exported->leave_weights_in_file();
}

PreparedOptimizer Accelerator::prepare_shared(std::shared_ptr<torch::optim::Optimizer> optimizer) {
  if (!optimizer) throw std::invalid_argument("prepare(optimizer): the pointer is null");
  if (dynamic_cast<torch::optim::LBFGS*>(optimizer.get()) != nullptr) {
    throw std::invalid_argument(
        "prepare(optimizer): checkpoints cannot hold the state of torch::optim::LBFGS yet: use "
        "another optimizer");
  }
  // LibTorch's own optimizers would step a tied weight once per name.
  for (auto& group : optimizer->param_groups()) group.params() = distinct(group.params());
  state_->require_unstepped("prepare", *optimizer);
  for (const auto& model : state_->gradients->sharded) State::hand_over(*model, *optimizer);
  state_->gradients->optimizers.push_back(optimizer);
  state_->stepped[optimizer.get()].groups.read(*optimizer);
  return PreparedOptimizer(std::move(optimizer), state_->gradients);
}

PreparedScheduler Accelerator::prepare(Schedule schedule) {
  if (state_->gradients->optimizers.empty()) {
    throw std::invalid_argument(
        "prepare(schedule): no optimizer was prepared before it: prepare the optimizer first, or " +
        std::string("name it: prepare(schedule, optimizer)"));
  }
  PreparedOptimizer last(state_->gradients->optimizers.back(), state_->gradients);
  return prepare(std::move(schedule), last);
}

PreparedScheduler Accelerator::prepare(Schedule schedule, const PreparedOptimizer& optimizer) {
  state_->schedulers.push_back(
      std::make_shared<LrScheduler>(optimizer.optimizer_, std::move(schedule)));
  return PreparedScheduler(state_->schedulers.back(), state_->gradients);
}

std::shared_ptr<ShardedSampler> Accelerator::prepare(ShardedSampler sampler) {
  sampler.set_shard(process_index(), num_processes());
  auto shared = std::make_shared<ShardedSampler>(std::move(sampler));
  state_->sources.push_back(
      {[shared] { return shared->position(); },
       [shared](const DataPosition& position) { shared->set_position(position); },
       [shared] { return shared->options().dataset_size; }});
  return shared;
}

void Accelerator::attach_loader(std::shared_ptr<LoaderCore> loader) {
  LoaderContext context;
  context.rank = process_index();
  context.world_size = num_processes();
  if (state_->options.device_placement) context.device = device();
  context.configuration = state_->options.dataloader_config;
  context.collectives = state_->collectives;
  context.on_wait = [gradients = state_->gradients](double seconds) {
    gradients->timer.add(StepPart::data_wait, seconds);
  };
  context.on_active = [gradients = state_->gradients](const LoaderCore& core, bool active) {
    gradients->loader_is_active(core, active);
  };
  loader->attach(std::move(context));
  state_->sources.push_back(
      {[loader] { return loader->position(); },
       [loader](const DataPosition& position) { loader->set_position(position); },
       [loader] { return loader->dataset_size(); }});
}

void Accelerator::register_for_checkpointing(const std::string& name, CustomState custom) {
  const bool taken = std::any_of(state_->custom.begin(), state_->custom.end(),
                                 [&](const auto& known) { return known.first == name; });
  if (taken || name.empty() || name.find('/') != std::string::npos) {
    throw std::invalid_argument("register_for_checkpointing: the name '" + name +
                                "' is taken, empty or contains '/'");
  }
  state_->custom.emplace_back(name, std::move(custom));
}

void Accelerator::free_memory() {
  wait_for_checkpoint();
  for (const auto& model : state_->gradients->sharded) model->leave();
  state_->models.clear();
  state_->gradients->forget_prepared();
  state_->stepped.clear();
  state_->settled.reset();
  state_->schedulers.clear();
  state_->sources.clear();
  state_->custom.clear();
  state_->load_hooks.clear();
  clear_device_cache();
}

}  // namespace muster
