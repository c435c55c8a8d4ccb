// Wires the parts of the SDK together behind the public class; see accelerator.h. Training thread.
#include "muster/accelerator.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "checkpoint/checkpoint.h"
#include "parallel/data_parallel_factory.h"
#include "muster/errors.h"
#include "checkpoint/named_state.h"
#include "parallel/process_group.h"
#include "tracking/reporter.h"
#include "base/stop_signal.h"

namespace muster {
namespace {

at::Device choose_device(const Topology& topology, bool cpu) {
  const char* accelerate = std::getenv("ACCELERATE_USE_CPU");
  const bool asked_for_cpu = accelerate != nullptr && std::string_view(accelerate) == "true";
  if (cpu || asked_for_cpu || !torch::cuda::is_available()) return at::kCPU;
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (topology.local_rank >= count) {
    throw TopologyError("LOCAL_RANK=" + std::to_string(topology.local_rank) + " has no device: " +
                        std::to_string(count) + " are visible; start fewer ranks on this node, " +
                        "make more visible, or set AcceleratorOptions::cpu");
  }
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(topology.local_rank));
}

// "model" for the first, "model.1" for the second.
std::string numbered(const char* prefix, size_t index) {
  return index == 0 ? prefix : std::string(prefix) + "." + std::to_string(index);
}

void add_under(TensorMap& all, const std::string& prefix, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) all[prefix + "/" + name] = tensor;
}

TensorMap take_under(const TensorMap& all, const std::string& prefix) {
  TensorMap tensors;
  const std::string start = prefix + "/";
  for (auto at = all.lower_bound(start); at != all.end() && at->first.starts_with(start); ++at) {
    tensors[at->first.substr(start.size())] = at->second;
  }
  return tensors;
}

at::Generator generator_of(at::Device device) {
  return at::globalContext().defaultGenerator(device);
}

at::Tensor random_state(at::Device device) {
  at::Generator generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

c10d::ReduceOp reduce_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return c10d::ReduceOp::MAX;
    case Reduction::min:
      return c10d::ReduceOp::MIN;
    default:
      return c10d::ReduceOp::SUM;  // mean divides afterwards: not every backend has AVG
  }
}

ReporterOptions reporter_options(const AcceleratorOptions& options, const Topology& topology,
                                 const WorkerEnvironment& worker) {
  ReporterOptions reporter;
  reporter.socket_path = worker.socket_path;
  reporter.metrics_file = options.metrics_file;
  reporter.job = worker.job;
  reporter.attempt = worker.attempt;
  reporter.rank = topology.rank;
  reporter.buffered_points_max = options.buffered_metrics_max;
  return reporter;
}

}  // namespace

struct Accelerator::State {
  explicit State(const AcceleratorOptions& given)
      : options(given),
        topology(Topology::from_environment()),
        worker(WorkerEnvironment::from_environment()),
        device(choose_device(topology, given.cpu)),
        reporter(reporter_options(given, topology, worker)) {}

  const AcceleratorOptions options;
  const Topology topology;
  const WorkerEnvironment worker;
  const at::Device device;
  Reporter reporter;
  ProcessGroupPtr group;

  std::vector<std::shared_ptr<DataParallel>> models;
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<std::shared_ptr<ShardedSampler>> samplers;
  std::vector<std::pair<std::string, CustomState>> custom;

  std::optional<CheckpointWriter> writer;
  std::optional<int64_t> saved_step;

  // The worker's directory wins: a checkpoint elsewhere would never reach the coordinator.
  std::string checkpoint_dir() const {
    return worker.checkpoint_dir.empty() ? options.checkpoint_dir : worker.checkpoint_dir;
  }

  int64_t removable_up_to() const {
    if (worker.checkpoint_dir.empty()) return std::numeric_limits<int64_t>::max();
    return reporter.committed_step();
  }

  at::Tensor all_reduce(at::Tensor tensor, Reduction reduction) const {
    if (!group) return tensor;
    c10d::AllreduceOptions reduce_options;
    reduce_options.reduceOp = reduce_op(reduction);
    std::vector<at::Tensor> tensors = {tensor};
    group->getBackend(tensor.device().type())->allreduce(tensors, reduce_options)->wait();
    if (reduction == Reduction::mean) tensor.div_(topology.world_size);
    return tensor;
  }

  bool any_rank(bool own) const {
    return all_reduce(torch::tensor({own ? 1 : 0}, at::kInt), Reduction::max).item<int>() != 0;
  }

  ParameterNames parameter_names() const {
    ParameterNames names;
    for (size_t i = 0; i < models.size(); ++i) {
      const std::string prefix = i == 0 ? "" : std::to_string(i) + ".";
      for (const auto& item : models[i]->module().named_parameters()) {
        names.emplace(item.value().unsafeGetTensorImpl(), prefix + item.key());
      }
    }
    return names;
  }

  CheckpointContent content(int64_t step);
  void apply(const LoadedCheckpoint& loaded);
  void restore_random_numbers(const LoadedCheckpoint& loaded);
};

CheckpointContent Accelerator::State::content(int64_t step) {
  CheckpointContent content;
  content.manifest.step = step;
  content.manifest.job = worker.job;
  content.manifest.attempt = worker.attempt;
  for (const auto& sampler : samplers) {
    const DataPosition position = sampler->position();
    content.manifest.data.push_back(
        {position.seed, position.epoch, position.consumed, sampler->options().dataset_size});
  }
  for (const auto& model : models) content.manifest.bucket_order.push_back(model->bucket_order());
  content.own["rng_cpu"] = random_state(at::kCPU);
  if (!device.is_cpu()) content.own["rng_device"] = random_state(device);
  if (topology.rank != 0) return content;  // replicas: rank 0's copy is everyone's
  for (size_t i = 0; i < models.size(); ++i) {
    add_under(content.global, numbered("model", i), module_tensors(models[i]->module()));
  }
  const ParameterNames names = parameter_names();
  for (size_t i = 0; i < optimizers.size(); ++i) {
    add_under(content.global, numbered("optim", i), optimizer_tensors(*optimizers[i], names));
  }
  for (const auto& [name, state] : custom) {
    add_under(content.global, "custom/" + name, state.save());
  }
  return content;
}

void Accelerator::State::restore_random_numbers(const LoadedCheckpoint& loaded) {
  const auto saved = loaded.own.find("rng_cpu");
  if (saved == loaded.own.end()) {
    torch::manual_seed(static_cast<uint64_t>(loaded.manifest.step) * 1'000'003 +
                       static_cast<uint64_t>(topology.rank));
    return;
  }
  set_random_state(at::kCPU, saved->second);
  const auto on_device = loaded.own.find("rng_device");
  if (!device.is_cpu() && on_device != loaded.own.end()) {
    set_random_state(device, on_device->second);
  }
}

void Accelerator::State::apply(const LoadedCheckpoint& loaded) {
  const Manifest& manifest = loaded.manifest;
  if (manifest.data.size() != samplers.size()) {
    throw CheckpointError(loaded.path + " has the position of " +
                          std::to_string(manifest.data.size()) +
                          " samplers, the program prepared " + std::to_string(samplers.size()));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const TensorMap saved = take_under(loaded.global, numbered("model", i));
    restore_module(models[i]->module(), saved, loaded.path);
    // Another world size has no bits to keep: it may build its own buckets.
    if (manifest.world_size == topology.world_size && i < manifest.bucket_order.size()) {
      models[i]->set_bucket_order(manifest.bucket_order[i]);
    }
  }
  const ParameterNames names = parameter_names();
  for (size_t i = 0; i < optimizers.size(); ++i) {
    restore_optimizer(*optimizers[i], names, take_under(loaded.global, numbered("optim", i)));
  }
  for (size_t i = 0; i < samplers.size(); ++i) {
    const ManifestPosition& saved = manifest.data[i];
    if (saved.dataset_size != samplers[i]->options().dataset_size) {
      throw CheckpointError(loaded.path + " was made with " + std::to_string(saved.dataset_size) +
                            " samples, the dataset now has " +
                            std::to_string(samplers[i]->options().dataset_size));
    }
    samplers[i]->set_position({saved.seed, saved.epoch, saved.consumed});
  }
  for (const auto& [name, state] : custom) state.load(take_under(loaded.global, "custom/" + name));
  restore_random_numbers(loaded);
}

void PreparedOptimizer::zero_grad() {
  for (auto& group : optimizer_->param_groups()) {
    for (at::Tensor& parameter : group.params()) parameter.mutable_grad().reset();
  }
}

Accelerator::Accelerator(const AcceleratorOptions& options)
    : state_(std::make_unique<State>(options)) {
  if (options.handle_sigterm) watch_stop_signal();
  // Kernels and communicators without an explicit device go to this one, of whatever kind it is.
  if (!device().is_cpu()) c10::impl::VirtualGuardImpl(device().type()).setDevice(device());
  state_->group = make_process_group(state_->topology, state_->device,
                                     {options.process_group_timeout, options.init_timeout});
}

Accelerator::~Accelerator() { end_training(); }

const Topology& Accelerator::topology() const { return state_->topology; }
at::Device Accelerator::device() const { return state_->device; }

std::shared_ptr<DataParallel> Accelerator::share_module(torch::nn::Module& module) {
  module.to(state_->device);
  state_->models.push_back(
      make_data_parallel(module, state_->group, state_->options.data_parallel));
  return state_->models.back();
}

PreparedOptimizer Accelerator::prepare_shared(std::shared_ptr<torch::optim::Optimizer> optimizer) {
  state_->optimizers.push_back(optimizer);
  return PreparedOptimizer(std::move(optimizer));
}

std::shared_ptr<ShardedSampler> Accelerator::prepare(ShardedSampler sampler) {
  sampler.set_shard(process_index(), num_processes());
  state_->samplers.push_back(std::make_shared<ShardedSampler>(std::move(sampler)));
  return state_->samplers.back();
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

void Accelerator::set_seed(uint64_t seed, bool device_specific) {
  torch::manual_seed(seed + (device_specific ? static_cast<uint64_t>(process_index()) : 0));
}

void Accelerator::wait_for_everyone() { barrier(state_->group); }

at::Tensor Accelerator::gather(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  at::Tensor own = tensor.detach().contiguous();
  if (own.dim() == 0) own = own.reshape({1});
  if (!state_->group) return own.clone();
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int i = 0; i < num_processes(); ++i) outputs[0].push_back(at::empty_like(own));
  std::vector<at::Tensor> inputs = {own};
  state_->group->getBackend(own.device().type())->allgather(outputs, inputs)->wait();
  return at::cat(outputs[0]);
}

std::vector<double> Accelerator::gather(double value) {
  const at::Tensor values = gather(torch::tensor(value, at::kDouble));
  return std::vector<double>(values.const_data_ptr<double>(),
                             values.const_data_ptr<double>() + values.numel());
}

at::Tensor Accelerator::reduce(const at::Tensor& tensor, Reduction reduction) {
  const torch::NoGradGuard no_grad;
  if (reduction == Reduction::mean && !tensor.is_floating_point() && !tensor.is_complex()) {
    throw std::invalid_argument(std::string("reduce: the mean of ") +
                                c10::toString(tensor.scalar_type()) +
                                " is not defined: convert to a floating type or take the sum");
  }
  return state_->all_reduce(tensor.detach().contiguous().clone(), reduction);
}

double Accelerator::reduce(double value, Reduction reduction) {
  return reduce(torch::tensor({value}, at::kDouble), reduction).item<double>();
}

void Accelerator::log(std::string_view name, double value, int64_t step,
                      const LogOptions& options) {
  if (is_main_process() || options.all_ranks) state_->reporter.log(name, value, step);
}

void Accelerator::progress(int64_t step, int64_t total) {
  if (is_main_process()) state_->reporter.progress(step, total);
}

uint64_t Accelerator::dropped_metrics() const { return state_->reporter.dropped(); }

void Accelerator::print(const std::string& line) {
  if (!is_local_main_process()) return;
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

bool Accelerator::stop_requested() const {
  return state_->reporter.stop_requested() || stop_signal_received();
}

bool Accelerator::should_stop() { return state_->any_rank(stop_requested()); }

bool Accelerator::should_checkpoint() {
  return state_->any_rank(state_->reporter.checkpoint_requested());
}

std::string Accelerator::checkpoint_dir() const { return state_->checkpoint_dir(); }

std::string Accelerator::save_state(int64_t step) {
  const std::string directory = checkpoint_dir();
  if (directory.empty()) {
    throw CheckpointError("save_state: no directory: set AcceleratorOptions::checkpoint_dir, or " +
                          std::string("run under Muster, which sets MUSTER_CHECKPOINT_DIR"));
  }
  const std::string path = directory + "/" + step_name(step);
  if (state_->saved_step == step) return path;
  if (!state_->writer) {
    state_->writer.emplace(
        CheckpointWriterOptions{directory, state_->topology, state_->options.keep_checkpoints,
                                state_->options.on_checkpoint_stage},
        state_->group);
  }
  state_->writer->save(state_->content(step), state_->removable_up_to());
  state_->saved_step = step;
  state_->reporter.clear_checkpoint_request();
  if (is_local_main_process()) state_->reporter.checkpoint_saved(step);
  return path;
}

std::optional<int64_t> Accelerator::load_state() {
  const std::string& resume_from =
      state_->worker.resume_from.empty() ? state_->options.resume_from : state_->worker.resume_from;
  const auto loaded =
      load_checkpoint(resume_from, state_->checkpoint_dir(), state_->topology, state_->group);
  if (!loaded) return std::nullopt;
  state_->apply(*loaded);
  return loaded->manifest.step;
}

void Accelerator::end_training() { state_->reporter.close(); }

}  // namespace muster
