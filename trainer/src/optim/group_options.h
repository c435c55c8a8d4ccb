// A group's option struct inside LibTorch's parameter groups, whose options are polymorphic.
#pragma once

#include <torch/optim.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/optim/optimizers.h"

namespace muster::internal {

template <typename Values>
class GroupOptions : public torch::optim::OptimizerOptions {
 public:
  explicit GroupOptions(const Values& initial) : values(initial) {}

  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<GroupOptions>(*this);
  }
  double get_lr() const override { return values.lr; }
  void set_lr(double lr) override { values.lr = lr; }

  Values values;
};

template <typename Values>
Values& values_of(torch::optim::OptimizerOptions& options) {
  auto* own = dynamic_cast<GroupOptions<Values>*>(&options);
  if (own == nullptr) {
    throw std::invalid_argument(
        "a parameter group has another optimizer's options: pass groups to the constructor, or "
        "call add_param_group without options");
  }
  return own->values;
}

template <typename Values>
const Values& values_of(const torch::optim::Optimizer& optimizer, size_t group) {
  return values_of<Values>(
      const_cast<torch::optim::OptimizerOptions&>(optimizer.param_groups().at(group).options()));
}

// The arguments of muster::Optimizer's constructor, from validated groups.
template <typename Result, typename Values>
Result own_groups(const std::vector<ParameterGroup<Values>>& groups, void (*check)(const Values&)) {
  Result result;
  for (const ParameterGroup<Values>& group : groups) {
    check(group.options);
    result.emplace_back(group.parameters, std::make_unique<GroupOptions<Values>>(group.options));
  }
  return result;
}

// The defaults of an optimizer: the options of its first group; nullptr if there is none.
template <typename Values>
std::unique_ptr<torch::optim::OptimizerOptions> defaults_of(
    const std::vector<ParameterGroup<Values>>& groups) {
  if (groups.empty()) return nullptr;
  return std::make_unique<GroupOptions<Values>>(groups.front().options);
}

inline void require_option(bool good, const char* name, double value, const char* rule) {
  if (good) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                              ", but must be " + rule);
}

}  // namespace muster::internal
