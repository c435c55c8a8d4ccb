// Restores a run from a checkpoint; see muster/accelerator/accelerator.h.
#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "accelerator/state.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/joint_step.h"
#include "muster/base/errors.h"
#include "muster/device/random_state.h"

namespace muster {

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

TensorMap Accelerator::State::own_tensors(size_t index, RangeMap& ranges) const {
  TensorMap own = module_tensors(models[index]->module());
  ShardedModel* sharded = sharded_of(models[index]->module());
  if (sharded == nullptr) return own;
  for (auto& [name, tensor] : own) {
    const ParameterSlot* slot = sharded->find(name);
    if (slot == nullptr) continue;
    tensor = slot->piece.detach();
    ranges[name] = {slot->range.begin, slot->range.count, slot->shape};
  }
  return own;
}

void Accelerator::State::restore_model(size_t index, const CheckpointReader& reader) {
  const auto saved = reader.under(numbered("model", index));
  RangeMap ranges;
  const TensorMap own = own_tensors(index, ranges);
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

// A checkpoint from elsewhere may be saved here under its step, unless the coordinator has it.
void Accelerator::State::note_loaded(const CheckpointReader& reader, bool is_of_job,
                                     bool is_whole) {
  const int64_t step = reader.manifest().step;
  std::error_code error;
  const bool here =
      std::filesystem::equivalent(reader.path(), checkpoint_dir() + "/" + step_name(step), error);
  if (!here && !is_of_job) return;
  loaded_steps.insert(step);
  if (is_whole) settle(step, reader.path());
}

// What a checkpoint has beyond the program's models, optimizers and registered states is not read.
bool Accelerator::State::is_restored(const std::string& name) const {
  const size_t slash = name.find('/');
  const std::string part = name.substr(0, slash);
  const auto is_among = [&](const char* kind, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (part == numbered(kind, i)) return true;
    }
    return false;
  };
  const std::string kind = part.substr(0, part.find('.'));
  if (kind == "model") return is_among("model", models.size());
  if (kind == "optim") return is_among("optim", gradients->optimizers.size());
  if (kind == "scheduler") return is_among("scheduler", schedulers.size());
  if (kind == "scaler") return gradients->scaler.has_value();
  if (kind != "custom" || slash == std::string::npos) return true;
  return std::any_of(custom.begin(), custom.end(), [&](const auto& registered) {
    return name.substr(slash + 1).starts_with(registered.first + "/");
  });
}

LoadedState Accelerator::State::load(const CheckpointReader& reader, bool is_of_job, bool strict) {
  const Manifest& manifest = reader.manifest();
  LoadedState loaded{.step = manifest.step, .path = reader.path(), .report = {}};
  settled.reset();
  together(group, [&] { strict ? restore(reader) : restore_fitting(reader, loaded.report); });
  note_loaded(reader, is_of_job, strict);
  for (const auto& model : gradients->sharded) model->publish();
  if (strict) {
    for (const auto& [name, tensor] : manifest.tensors) {
      (is_restored(name) ? loaded.report.loaded : loaded.report.unexpected).push_back(name);
    }
    // With another world size, results are not bit-identical anyway, so it builds its own buckets.
    for (size_t i = 0; i < models.size() && manifest.world_size == topology.world_size; ++i) {
      if (i < manifest.bucket_order.size()) models[i]->set_bucket_order(manifest.bucket_order[i]);
    }
    next_iteration = manifest.step + 1;
    steps_before = manifest.step - gradients->timer.steps();
  }
  // A copy: a hook may register another one, or release everything.
  const auto hooks = load_hooks;
  if (!hooks.empty()) {
    together(group, [&] {
      for (const auto& hook : hooks) hook(loaded);
    });
  }
  return loaded;
}

std::optional<int64_t> Accelerator::load_state() {
  State& state = *state_;
  state.collectives->meet("load_state");
  state.follow_groups();
  wait_for_checkpoint();
  const bool is_of_job = !state.worker.resume_from.empty();
  const auto reader =
      open_checkpoint(is_of_job ? state.worker.resume_from : state.options.resume_from,
                      checkpoint_dir(), state.topology, state.group);
  if (!reader) return std::nullopt;
  return state.load(*reader, is_of_job, /*strict=*/true).step;
}

LoadedState Accelerator::load_state(const LoadStateOptions& options) {
  State& state = *state_;
  if (options.from.empty()) {
    throw std::invalid_argument(
        "load_state({.from = …}): from is empty: name a checkpoint or a folder of them; "
        "load_state() resumes this run");
  }
  state.collectives->meet("load_state",
                          "from '" + options.from + "'" + (options.strict ? "" : ", not strict"));
  state.follow_groups();
  wait_for_checkpoint();
  const CheckpointReader reader =
      open_named_checkpoint(options.from, options.strict, state.topology, state.group);
  return state.load(reader, /*is_of_job=*/false, options.strict);
}

void Accelerator::register_load_state_post_hook(std::function<void(const LoadedState&)> hook) {
  if (!hook) throw std::invalid_argument("register_load_state_post_hook: the function is empty");
  state_->load_hooks.push_back(std::move(hook));
}

}  // namespace muster
