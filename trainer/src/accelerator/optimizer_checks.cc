// Rejects optimizers that would step a parameter twice, or on gradients that are not averaged, and
// follows what is added to them.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_set>

#include "accelerator/state.h"
#include "base/distinct_tensors.h"
#include "muster/base/errors.h"
#include "parallel/call_name.h"
#include "parallel/data_parallel_state.h"

namespace muster {

std::string Accelerator::State::name_of(const at::Tensor& parameter, size_t group,
                                        size_t index) const {
  const ParameterNames names = parameter_names();
  const auto found = names.find(parameter.unsafeGetTensorImpl());
  if (found != names.end()) return "'" + found->second + "'";
  return c10::str("parameter ", index, " of group ", group, " (",
                  c10::getDtypeNames(parameter.scalar_type()).first, " ", parameter.sizes(), ")");
}

void Accelerator::State::require_unstepped(const char* function,
                                           torch::optim::Optimizer& optimizer) const {
  std::map<const c10::TensorImpl*, size_t> stepped;  // the index of the optimizer that steps it
  for (size_t i = 0; i < gradients->optimizers.size(); ++i) {
    if (gradients->optimizers[i].get() == &optimizer) continue;
    for (const auto& group : gradients->optimizers[i]->param_groups()) {
      for (const at::Tensor& known : group.params()) stepped[known.unsafeGetTensorImpl()] = i;
    }
  }
  size_t count = 0;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[group].params();
    // A sharded parameter is stepped through its shard.
    const std::vector<at::Tensor> pieces = stepped_tensors(parameters);
    count += parameters.size();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto found = stepped.find(pieces[i].unsafeGetTensorImpl());
      if (found == stepped.end()) continue;
      throw std::invalid_argument(
          std::string(function) + ": " + name_of(parameters[i], group, i) +
          " is already a parameter of a prepared optimizer (number " +
          std::to_string(found->second + 1) + " of " +
          std::to_string(gradients->optimizers.size()) +
          "), and two optimizers would unscale and clip it twice: use the one that prepare() "
          "returned, give one optimizer several groups, or release all with free_memory() first");
    }
  }
  if (count == 0) {
    throw std::invalid_argument(
        "prepare: the optimizer has no parameters: was it moved from, or created from a model "
        "without any?");
  }
}

void Accelerator::State::require_averaged(torch::optim::Optimizer& optimizer) {
  if (topology.world_size == 1) return;
  auto& strange = stepped[&optimizer].strange;
  if (!strange) strange = strange_parameters(optimizer);
  for (const auto& [group, index] : *strange) {
    const at::Tensor& parameter = optimizer.param_groups()[group].params()[index];
    if (!parameter.grad().defined()) continue;
    throw Error("optimizer.step(): " + name_of(parameter, group, index) +
                " belongs to no prepared model, so its gradient is not averaged and the ranks "
                "would diverge: prepare the model that has it, accelerator.prepare(net), or "
                "register it in one before that is prepared");
  }
}

void Accelerator::State::require_once(torch::optim::Optimizer& optimizer) const {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[group].params();
    const std::vector<at::Tensor> pieces = stepped_tensors(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (seen.insert(pieces[i].unsafeGetTensorImpl()).second) continue;
      throw std::invalid_argument("add_param_group: " + name_of(parameters[i], group, i) +
                                  " is in an earlier group of the optimizer, too, and would be "
                                  "stepped twice: add it once");
    }
  }
}

std::vector<std::pair<size_t, size_t>> Accelerator::State::strange_parameters(
    torch::optim::Optimizer& optimizer) const {
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto& model : models) {
    for (const NamedParameter& parameter : model->state().all) {
      known.insert(parameter.tensor.unsafeGetTensorImpl());
    }
  }
  std::vector<std::pair<size_t, size_t>> strange;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[group].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto has = [&](const auto& model) { return model->find(parameters[i]) != nullptr; };
      const auto& shards = gradients->sharded;
      if (known.contains(parameters[i].unsafeGetTensorImpl()) ||
          std::any_of(shards.begin(), shards.end(), has)) {
        continue;
      }
      strange.emplace_back(group, i);
    }
  }
  return strange;
}

void Accelerator::State::read_groups() {
  for (const auto& optimizer : gradients->optimizers) {
    SteppedParameters& own = stepped[optimizer.get()];
    own.groups.read(*optimizer);
    own.strange.reset();
  }
}

std::string Accelerator::State::groups_text(torch::optim::Optimizer& optimizer) const {
  const GroupFacts& before = stepped.at(&optimizer).groups;
  std::string added, all;
  for (size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (before.has(parameters[i])) continue;
      added += (added.empty() ? "" : ", ") + name_of(parameters[i], g, i);
    }
    all += (g == 0 ? "" : " + ") + std::to_string(parameters.size());
  }
  return (added.empty() ? "" : added + " new, ") +
         "in the groups of a prepared optimizer, which have " + all + " parameters now";
}

void Accelerator::State::follow_groups() {
  for (const auto& optimizer : gradients->optimizers) follow_groups(*optimizer);
}

void Accelerator::State::follow_groups(torch::optim::Optimizer& optimizer) {
  const bool matters = topology.world_size > 1 || !gradients->sharded.empty();
  if (!matters || !stepped.at(&optimizer).groups.changed(optimizer)) return;
  const std::string own = groups_text(optimizer);
  {
    const CallName name(own);
    const std::vector<std::string> all = all_gather_strings(group, own);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      throw CommunicationError("the ranks changed a prepared optimizer differently. Rank 0: " +
                               all[0] + "; rank " + std::to_string(rank) + ": " + all[rank] +
                               ": add the same groups on all ranks, before the same step");
    }
  }
  for (auto& group : optimizer.param_groups()) group.params() = distinct(group.params());
  require_unstepped("add_param_group", optimizer);
  require_once(optimizer);
  for (const auto& model : gradients->sharded) hand_over(*model, optimizer);
  stepped.at(&optimizer).groups.read(optimizer);
  stepped.at(&optimizer).strange.reset();
}

}  // namespace muster
