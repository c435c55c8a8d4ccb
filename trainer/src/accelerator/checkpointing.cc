// Saves and restores checkpoints; see muster/accelerator/accelerator.h and
// docs/formats-checkpoint.md.
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "accelerator/state.h"
#include "base/files.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/joint_step.h"
#include "checkpoint/streamed_model.h"
#include "muster/base/errors.h"
#include "muster/device/random_state.h"

namespace muster {
namespace {

void add_under(TensorMap& all, const std::string& prefix, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) all[prefix + "/" + name] = tensor;
}

}  // namespace

// The worker's directory takes precedence: a checkpoint elsewhere would never reach the
// coordinator.
std::string Accelerator::State::checkpoint_dir() const {
  if (!worker.checkpoint_dir.empty()) return worker.checkpoint_dir;
  if (!options.checkpoint_dir.empty()) return options.checkpoint_dir;
  return options.project.project_dir.empty() ? "" : options.project.project_dir + "/checkpoints";
}

int64_t Accelerator::State::removable_up_to() const {
  if (worker.checkpoint_dir.empty()) return std::numeric_limits<int64_t>::max();
  return reporter.committed_step();
}

ParameterPlaces Accelerator::State::parameter_places() const {
  ParameterPlaces places;
  for (size_t i = 0; i < models.size(); ++i) {
    for (const auto& item : models[i]->module().named_parameters()) {
      places.emplace(item.value().unsafeGetTensorImpl(), ParameterPlace{i, item.key(), nullptr});
    }
    ShardedModel* sharded = sharded_of(models[i]->module());
    if (sharded == nullptr) continue;
    for (const auto& unit : sharded->units()) {
      for (const ParameterSlot& slot : unit->slots()) {
        places.emplace(slot.piece.unsafeGetTensorImpl(),
                       ParameterPlace{i, slot.parameter.names.front(), &slot});
      }
    }
  }
  return places;
}

ParameterNames Accelerator::State::parameter_names() const {
  ParameterNames names;
  for (const auto& [tensor, place] : parameter_places()) {
    names[const_cast<c10::TensorImpl*>(tensor)] =
        (place.model == 0 ? "" : std::to_string(place.model) + ".") + place.name;
  }
  return names;
}

int Accelerator::State::checkpoint_version() const {
  const ParameterPlaces places = parameter_places();
  for (const auto& optimizer : gradients->optimizers) {
    if (!optimizer_names(*optimizer, places, 1).met.empty()) return 2;
  }
  return 1;
}

Manifest Accelerator::State::manifest(int64_t step, const SaveOptions& save_options) const {
  Manifest manifest;
  manifest.version = checkpoint_version();
  manifest.step = step;
  manifest.job = worker.job;
  manifest.attempt = worker.attempt;
  manifest.metrics = save_options.metrics;
  for (const DataSource& source : sources) {
    const DataPosition position = source.position();
    manifest.data.push_back({.seed = position.seed,
                             .epoch = position.epoch,
                             .consumed = position.consumed,
                             .dataset_size = source.dataset_size()});
  }
  for (const auto& model : models) manifest.bucket_order.push_back(model->bucket_order());
  return manifest;
}

void Accelerator::State::add_model(size_t index, TensorMap& global, ShardMap& shards) const {
  const std::string prefix = numbered("model", index) + "/";
  ShardedModel* sharded = sharded_of(models[index]->module());
  for (const auto& [name, tensor] : module_tensors(models[index]->module())) {
    const ParameterSlot* slot = sharded != nullptr ? sharded->find(name) : nullptr;
    if (slot == nullptr) {
      global[prefix + name] = tensor;
    } else {
      shards[prefix + name] = {slot->piece.detach(), slot->shape, slot->range.begin};
    }
  }
}

void Accelerator::State::add_optimizer(size_t index, const ParameterPlaces& places, int version,
                                       TensorMap& global, ShardMap& shards) const {
  torch::optim::Optimizer& optimizer = *gradients->optimizers[index];
  const OptimizerNames names = optimizer_names(optimizer, places, version);
  for (const auto& [name, tensor] : optimizer_tensors(optimizer, names.names)) {
    const std::string key = numbered("optim", index) + "/" + name;
    const ParameterSlot* slot = slot_of_field(names, name);
    if (slot == nullptr) {
      global[key] = tensor;
    } else if (tensor.dim() > 0) {
      shards[key] = {tensor, slot->shape, slot->range.begin};
    } else if (slot->range.begin == 0 && slot->range.count > 0) {
      shards[key] = {tensor, {}, 0};  // the step count, from the owner of the first shard
    }
  }
}

// Models and optimizers: nearly all bytes of a checkpoint. Each rank has its shards of sharded
// tensors; the rest is the same on all ranks.
void Accelerator::State::add_trained(TensorMap& global, ShardMap& shards) const {
  for (size_t i = 0; i < models.size(); ++i) add_model(i, global, shards);
  const ParameterPlaces places = parameter_places();
  const int version = checkpoint_version();
  for (size_t i = 0; i < gradients->optimizers.size(); ++i) {
    add_optimizer(i, places, version, global, shards);
  }
}

// What this rank writes of models and optimizers: rank 0 writes what all have, each owner its
// shards, owners of further copies nothing.
void Accelerator::State::add_own(CheckpointContent& content) const {
  if (topology.rank != 0 && (!sharding_groups || sharding_groups->copy != 0)) return;
  add_trained(content.global, content.shards);
  if (topology.rank != 0) content.global.clear();
}

// What rank 0 writes for all ranks, which hold replicas.
void Accelerator::State::add_global(TensorMap& global) const {
  for (size_t i = 0; i < schedulers.size(); ++i) {
    add_under(global, numbered("scheduler", i), schedulers[i]->state());
  }
  if (gradients->scaler) add_under(global, "scaler", gradients->scaler->state_dict());
  for (const auto& [name, state] : custom) add_under(global, "custom/" + name, state.save());
}

CheckpointContent Accelerator::State::content(int64_t step, const SaveOptions& save_options) {
  CheckpointContent content;
  content.manifest = manifest(step, save_options);
  // A registered object that throws fails the save on all ranks.
  content.error = error_of([&] {
    content.own["rng_cpu"] = random_state(at::kCPU);
    if (!device.is_cpu()) content.own["rng_device"] = random_state(device);
    add_own(content);
    if (topology.rank == 0) add_global(content.global);
  });
  return content;
}

void Accelerator::State::restore_random_numbers(const CheckpointReader& reader) const {
  const TensorMap own = reader.own();
  const auto saved = own.find("rng_cpu");
  if (saved == own.end()) {
    muster::set_seed(static_cast<uint64_t>(reader.manifest().step) * 1'000'003,
                     {.offset = static_cast<uint64_t>(topology.rank)});
    return;
  }
  set_random_state(at::kCPU, saved->second);
  const auto on_device = own.find("rng_device");
  if (!device.is_cpu() && on_device != own.end()) set_random_state(device, on_device->second);
}

void Accelerator::State::restore_positions(const CheckpointReader& reader) {
  const std::vector<ManifestPosition>& data = reader.manifest().data;
  if (data.size() != sources.size()) {
    throw CheckpointError(reader.path() + " has the positions of " + std::to_string(data.size()) +
                          " loaders, but the program prepared " + std::to_string(sources.size()));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const int64_t size = sources[i].dataset_size();
    if (data[i].dataset_size != size) {
      throw CheckpointError(reader.path() + " was made with " +
                            std::to_string(data[i].dataset_size) +
                            " samples, but the dataset now has " + std::to_string(size));
    }
    sources[i].set_position({data[i].seed, data[i].epoch, data[i].consumed});
  }
}

void Accelerator::State::restore_model(size_t index, const CheckpointReader& reader) {
  const auto saved = reader.under(numbered("model", index));
  ShardedModel* sharded = sharded_of(models[index]->module());
  if (sharded == nullptr) {
    restore_module(models[index]->module(), *saved, reader.path());
    return;
  }
  RangeMap ranges;
  TensorMap own = module_tensors(models[index]->module());
  for (auto& [name, tensor] : own) {
    const ParameterSlot* slot = sharded->find(name);
    if (slot == nullptr) continue;
    tensor = slot->piece.detach();
    ranges[name] = {slot->range.begin, slot->range.count, slot->shape};
  }
  restore_tensors(own, RangeSource(*saved, ranges, reader.path()), reader.path());
}

void Accelerator::State::require_readable(const CheckpointReader& reader) const {
  const ParameterPlaces places = parameter_places();
  const auto& optimizers = gradients->optimizers;
  for (size_t i = 0; i < optimizers.size(); ++i) {
    require_separate_names(optimizer_names(*optimizers[i], places, reader.manifest().version),
                           *reader.under(numbered("optim", i)), reader.path());
  }
}

void Accelerator::State::restore_optimizers(const CheckpointReader& reader) {
  const ParameterPlaces places = parameter_places();
  auto& optimizers = gradients->optimizers;
  for (size_t i = 0; i < optimizers.size(); ++i) {
    const OptimizerNames names = optimizer_names(*optimizers[i], places, reader.manifest().version);
    const auto saved = reader.under(numbered("optim", i));
    RangeMap ranges;
    for (const std::string& name : saved->names()) {
      const ParameterSlot* slot = slot_of_field(names, name);
      if (slot == nullptr || name.starts_with("step/")) continue;
      ranges[name] = {slot->range.begin, slot->range.count, slot->shape};
    }
    restore_optimizer(*optimizers[i], names.names, RangeSource(*saved, ranges, reader.path()));
  }
}

void Accelerator::State::restore(const CheckpointReader& reader) {
  require_readable(reader);
  for (size_t i = 0; i < models.size(); ++i) restore_model(i, reader);
  restore_optimizers(reader);
  for (size_t i = 0; i < schedulers.size(); ++i) {
    const TensorMap saved = reader.read(numbered("scheduler", i));
    if (saved.empty()) {
      throw CheckpointError(reader.path() + " has no state of schedule " + std::to_string(i) +
                            ": it was saved by a program with fewer prepared schedules");
    }
    schedulers[i]->load_state(saved);
  }
  if (gradients->scaler) {
    // A run that used a different precision before has none.
    const TensorMap saved = reader.read("scaler");
    if (!saved.empty()) gradients->scaler->load_state_dict(saved);
  }
  restore_positions(reader);
  for (const auto& [name, state] : custom) restore_registered(name, state, reader);
  restore_random_numbers(reader);
}

// A state that saves nothing has nothing in the checkpoint, and must load that.
void Accelerator::State::restore_registered(const std::string& name, const CustomState& state,
                                            const CheckpointReader& reader) {
  const TensorMap saved = reader.read("custom/" + name);
  try {
    state.load(saved);
  } catch (const std::exception& error) {
    if (!saved.empty()) throw;
    throw CheckpointError(reader.path() + " has no registered state '" + name +
                          "', and that cannot be loaded from nothing (" + error.what() +
                          "): it was saved by a program that had not registered it; to load the "
                          "rest, call register_for_checkpointing(\"" +
                          name + "\", …) after load_state()");
  }
}

std::string Accelerator::checkpoint_dir() const { return state_->checkpoint_dir(); }

AsyncCheckpointer& Accelerator::State::open_checkpointer() {
  if (checkpointer) return *checkpointer;
  CheckpointPolicy policy = options.checkpoint.policy;
  if (policy.keep_last == 0) policy.keep_last = options.project.total_limit;
  const auto published = [this](int64_t step, const std::string&) {
    if (topology.local_rank == 0) reporter.checkpoint_saved(step);
  };
  // Asynchronous saves use a separate group, because their collectives run concurrently with
  // training's.
  if (options.checkpoint.asynchronous) {
    checkpoint_group = make_side_group(
        group, "checkpoint",
        {options.process_group_timeout, options.init_timeout, options.network_interfaces});
  }
  checkpointer.emplace(CheckpointWriterOptions{checkpoint_dir(), topology, policy,
                                               options.on_checkpoint_stage, published},
                       options.checkpoint.asynchronous ? checkpoint_group : group,
                       options.checkpoint.wait_timeout);
  return *checkpointer;
}

void Accelerator::State::prepare_saving() {
  if (!options.checkpoint.asynchronous || checkpoint_dir().empty()) return;
  AsyncCheckpointer& opened = open_checkpointer();
  CheckpointContent trained;
  add_own(trained);
  opened.reserve(trained);
}

void Accelerator::State::settle(int64_t step, const std::string& path) {
  settled = Settled{step, path, gradients->optimizer_steps, module_loads()};
}

std::optional<std::string> Accelerator::State::settled_path(int64_t step) {
  if (settled && settled->step == step) {
    const std::string error = error_of([&] { checkpointer->wait(); });
    if (!error.empty()) {
      settled.reset();
      throw CheckpointError(error);
    }
  }
  const bool known = checkpointer->published(step) || loaded_steps.contains(step);
  if (!collectives->any_rank(known)) return std::nullopt;
  const bool unchanged = settled && settled->step == step &&
                         settled->optimizer_steps == gradients->optimizer_steps &&
                         settled->module_loads == module_loads();
  if (collectives->any_rank(!unchanged)) {
    throw CheckpointError(
        "save_state: step " + std::to_string(step) +
        " was saved or loaded by this run, which has trained or loaded something since; a "
        "checkpoint may be in use already, so it is never replaced: save this state as another "
        "step, such as save_iteration(), " +
        std::to_string(next_iteration));
  }
  if (collectives->any_rank(!path_exists(settled->path))) {
    throw CheckpointError("save_state: step " + std::to_string(step) + " was saved as " +
                          settled->path +
                          ", which is gone: was it removed by the retention policy? Save this "
                          "state as another step");
  }
  return settled->path;
}

// A checkpoint from elsewhere may be saved here under its step, unless the coordinator has it.
void Accelerator::State::note_loaded(const CheckpointReader& reader) {
  const int64_t step = reader.manifest().step;
  std::error_code error;
  const bool here =
      std::filesystem::equivalent(reader.path(), checkpoint_dir() + "/" + step_name(step), error);
  if (!here && worker.resume_from.empty()) return;
  loaded_steps.insert(step);
  settle(step, reader.path());
}

std::string Accelerator::save_state(int64_t step, const SaveOptions& options) {
  State& state = *state_;
  const std::string directory = checkpoint_dir();
  if (directory.empty()) {
    throw CheckpointError("save_state: no directory: set AcceleratorOptions::checkpoint_dir, or " +
                          std::string("run under Muster, which sets MUSTER_CHECKPOINT_DIR"));
  }
  if (step < 0) {
    throw std::invalid_argument("save_state: step " + std::to_string(step) + " is negative");
  }
  state.collectives->meet("save_state", "step " + std::to_string(step));
  const auto section = state.gradients->timer.measure(StepPart::checkpoint);
  state.follow_groups();
  AsyncCheckpointer& checkpointer = state.open_checkpointer();
  if (const auto saved = state.settled_path(step)) {
    state.reporter.clear_checkpoint_request();
    return *saved;
  }
  state.settled.reset();
  const CheckpointContent content = state.content(step, options);
  std::string path;
  if (state.options.checkpoint.asynchronous) {
    path = checkpointer.save(content, state.removable_up_to());
    if (options.wait) checkpointer.wait();
  } else {
    path = checkpointer.save_now(content, state.removable_up_to());
  }
  state.settle(step, path);
  state.next_iteration = step + 1;
  state.reporter.clear_checkpoint_request();
  return path;
}

int64_t Accelerator::save_iteration() const { return state_->next_iteration; }

void Accelerator::wait_for_checkpoint() {
  if (!state_->checkpointer) return;
  const auto section = state_->gradients->timer.measure(StepPart::checkpoint);
  try {
    state_->checkpointer->wait();
  } catch (const CheckpointError&) {
    state_->settled.reset();
    throw;
  }
}

std::optional<int64_t> Accelerator::load_state() {
  State& state = *state_;
  state.collectives->meet("load_state");
  state.follow_groups();
  wait_for_checkpoint();
  const std::string& resume_from =
      state.worker.resume_from.empty() ? state.options.resume_from : state.worker.resume_from;
  const auto reader = open_checkpoint(resume_from, checkpoint_dir(), state.topology, state.group);
  if (!reader) return std::nullopt;
  state.settled.reset();
  together(state.group, [&] { state.restore(*reader); });
  state.note_loaded(*reader);
  for (const auto& model : state.gradients->sharded) model->publish();
  const Manifest& manifest = reader->manifest();
  // With another world size, results are not bit-identical anyway, so it builds its own buckets.
  for (size_t i = 0; i < state.models.size() && manifest.world_size == num_processes(); ++i) {
    if (i < manifest.bucket_order.size()) {
      state.models[i]->set_bucket_order(manifest.bucket_order[i]);
    }
  }
  state.next_iteration = manifest.step + 1;
  state.steps_before = manifest.step - state.gradients->timer.steps();
  return manifest.step;
}

TensorMap Accelerator::state_dict_of(torch::nn::Module& module) const {
  TensorMap tensors = module_tensors(module);
  ShardedModel* sharded = state_->sharded_of(module);
  if (sharded != nullptr) {
    state_->collectives->meet("get_state_dict");
    for (const auto& unit : sharded->units()) {
      for (const ParameterSlot& slot : unit->slots()) {
        const at::Tensor whole = sharded->read_whole(slot).to(at::kCPU, /*non_blocking=*/false,
                                                              /*copy=*/true);
        for (const std::string& name : slot.parameter.names) tensors[name] = whole;
      }
    }
    sharded->end_reading();
  }
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().cpu();
  return tensors;
}

// Rank 0 writes; the others take part in gathering each tensor, in the order of the files.
void Accelerator::State::save_sharded(ShardedModel& model, torch::nn::Module& module,
                                      const std::string& directory,
                                      const SaveModelOptions& save_options) {
  std::vector<TensorOutline> outlines;
  StringMap aliases;
  const TensorMap tensors = module_tensors(module);
  for (const std::string& name : state_names(module)) {
    const ParameterSlot* slot = model.find(name);
    if (slot != nullptr && slot->parameter.names.front() != name) {
      aliases[name] = slot->parameter.names.front();
    } else if (slot != nullptr) {
      outlines.push_back({name, slot->piece.scalar_type(), slot->shape});
    } else {
      outlines.push_back({name, tensors.at(name).scalar_type(), tensors.at(name).sizes().vec()});
    }
  }
  const auto fetch = [&](const std::string& name) {
    const ParameterSlot* slot = model.find(name);
    return slot == nullptr ? tensors.at(name).detach().cpu() : model.read_whole(*slot).cpu();
  };
  together(group, [&] {
    if (topology.rank == 0) {
      save_model_streamed(outlines, aliases, directory, save_options, fetch);
    } else {
      for (const std::string& name : streaming_order(outlines, save_options)) fetch(name);
    }
  });
  model.end_reading();
}

void Accelerator::save_module(torch::nn::Module& module, const std::string& directory,
                              const SaveModelOptions& save_options) {
  state_->collectives->meet("save_model");
  if (ShardedModel* sharded = state_->sharded_of(module)) {
    state_->save_sharded(*sharded, module, directory, save_options);
    return;
  }
  together(state_->group, [&] {
    if (is_main_process()) muster::save_model(module, directory, save_options);
  });
}

void Accelerator::save(const TensorMap& tensors, const std::string& path) {
  state_->collectives->meet("save");
  together(state_->group, [&] {
    if (is_main_process()) save_safetensors(path, tensors, {{"format", "pt"}});
  });
}

}  // namespace muster
