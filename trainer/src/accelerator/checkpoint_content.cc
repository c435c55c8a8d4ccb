// What a checkpoint of a run has; see docs/formats-checkpoint.md.
#include "accelerator/state.h"
#include "checkpoint/joint_step.h"
#include "muster/device/random_state.h"

namespace muster {
namespace {

void add_under(TensorMap& all, const std::string& prefix, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) all[prefix + "/" + name] = tensor;
}

}  // namespace

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

Accelerator::State::SavedNames Accelerator::State::saved_names() const {
  const ParameterPlaces places = parameter_places();
  SavedNames names;
  for (const auto& optimizer : gradients->optimizers) {
    names.of_optimizers.push_back(optimizer_names(*optimizer, places, 1));
    if (!names.of_optimizers.back().met.empty()) names.version = 2;
  }
  for (size_t i = 0; names.version == 2 && i < names.of_optimizers.size(); ++i) {
    names.of_optimizers[i] = optimizer_names(*gradients->optimizers[i], places, 2);
  }
  return names;
}

Manifest Accelerator::State::manifest(int64_t step, const SaveOptions& save_options) const {
  Manifest manifest;
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

void Accelerator::State::add_optimizer(size_t index, const OptimizerNames& names, TensorMap& global,
                                       ShardMap& shards) const {
  for (const auto& [name, tensor] : optimizer_tensors(*gradients->optimizers[index], names.names)) {
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
void Accelerator::State::add_trained(const SavedNames& names, TensorMap& global,
                                     ShardMap& shards) const {
  for (size_t i = 0; i < models.size(); ++i) add_model(i, global, shards);
  for (size_t i = 0; i < gradients->optimizers.size(); ++i) {
    add_optimizer(i, names.of_optimizers[i], global, shards);
  }
}

// What this rank writes of models and optimizers: rank 0 writes what all have, each owner its
// shards, owners of further copies nothing.
void Accelerator::State::add_own(CheckpointContent& content) const {
  const SavedNames names = saved_names();
  content.manifest.version = names.version;
  if (topology.rank != 0 && (!sharding_groups || sharding_groups->copy != 0)) return;
  add_trained(names, content.global, content.shards);
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

}  // namespace muster
