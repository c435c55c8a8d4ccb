// Weights for others to read; see muster/accelerator/accelerator.h.
#include "accelerator/state.h"
#include "checkpoint/joint_step.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/streamed_model.h"

namespace muster {

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
    if (slot != nullptr && slot->parameter.names.front() != name && name != kFormatKey) {
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
    if (is_main_process()) save_safetensors(path, tensors, {{kFormatKey, "pt"}});
  });
}

}  // namespace muster
