// See checkpoint_names.h.
#include "accelerator/checkpoint_names.h"

#include "muster/base/errors.h"

namespace muster {
namespace {

// A parameter of an optimizer, and its position there.
struct SteppedParameter {
  const ParameterPlace* place = nullptr;  // null: of no prepared model
  size_t group = 0;
  size_t index = 0;
};

std::string saved_name(const SteppedParameter& parameter, int version) {
  const std::string position =
      std::to_string(parameter.group) + "." + std::to_string(parameter.index);
  if (version > 1) {
    return parameter.place == nullptr
               ? "group/" + position
               : numbered("model", parameter.place->model) + "/" + parameter.place->name;
  }
  if (parameter.place == nullptr) {
    return "group." + std::to_string(parameter.group) + ".parameter." +
           std::to_string(parameter.index);
  }
  const size_t model = parameter.place->model;
  return (model == 0 ? "" : std::to_string(model) + ".") + parameter.place->name;
}

// "'1.weight' of prepared model 1".
std::string parameter_text(const SteppedParameter& parameter) {
  if (parameter.place == nullptr) {
    return "parameter " + std::to_string(parameter.index) + " of the optimizer's group " +
           std::to_string(parameter.group) + ", which is in no prepared model";
  }
  return "'" + parameter.place->name + "' of prepared model " +
         std::to_string(parameter.place->model + 1);
}

std::string name_in(const std::string& key) {
  const size_t slash = key.find('/');
  return slash == std::string::npos ? "" : key.substr(slash + 1);
}

}  // namespace

std::string numbered(const char* prefix, size_t index) {
  return index == 0 ? prefix : std::string(prefix) + "." + std::to_string(index);
}

OptimizerNames optimizer_names(torch::optim::Optimizer& optimizer, const ParameterPlaces& places,
                               int version) {
  OptimizerNames result;
  std::map<std::string, SteppedParameter> taken;
  const auto& groups = optimizer.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto& parameters = groups[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      c10::TensorImpl* const tensor = parameters[i].unsafeGetTensorImpl();
      const auto found = places.find(tensor);
      const SteppedParameter own{found == places.end() ? nullptr : &found->second, g, i};
      const std::string name = saved_name(own, version);
      if (!result.names.emplace(tensor, name).second) continue;
      const auto [other, is_new] = taken.emplace(name, own);
      if (!is_new) result.met[name] = parameter_text(other->second) + " and " + parameter_text(own);
      if (own.place != nullptr && own.place->slot != nullptr) {
        result.slots[name] = own.place->slot;
      }
    }
  }
  return result;
}

const ParameterSlot* slot_of_field(const OptimizerNames& names, const std::string& key) {
  const auto found = names.slots.find(name_in(key));
  return found == names.slots.end() ? nullptr : found->second;
}

void require_separate_names(const OptimizerNames& names, const TensorSource& saved,
                            const std::string& where) {
  for (const std::string& key : saved.names()) {
    const auto met = names.met.find(name_in(key));
    if (met == names.met.end()) continue;
    throw CheckpointError(
        where + " has one optimizer state, '" + key + "', for two parameters: " + met->second +
        " had the same name when an older SDK saved it, and the state of one is lost; nothing was "
        "loaded. To restart the optimizer, load the weights of " +
        where + " alone, with load_model or a program that prepares only the models");
  }
}

}  // namespace muster
