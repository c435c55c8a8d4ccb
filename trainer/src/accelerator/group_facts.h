// The parameters of a prepared optimizer's groups when they were last looked at. Groups may be added,
// and LibTorch tells no one.
#pragma once

#include <torch/optim.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace muster {

class GroupFacts {
 public:
  void read(const torch::optim::Optimizer& optimizer) {
    groups_.clear();
    for (const auto& group : optimizer.param_groups()) groups_.push_back(group.params());
  }
  // One pass over pointers.
  bool changed(const torch::optim::Optimizer& optimizer) const {
    const auto& groups = optimizer.param_groups();
    if (groups.size() != groups_.size()) return true;
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto is_same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
      const auto& now = groups[i].params();
      if (!std::equal(now.begin(), now.end(), groups_[i].begin(), groups_[i].end(), is_same)) {
        return true;
      }
    }
    return false;
  }
  bool has(const at::Tensor& parameter) const {
    for (const auto& group : groups_) {
      for (const at::Tensor& known : group) {
        if (known.is_same(parameter)) return true;
      }
    }
    return false;
  }

 private:
  std::vector<std::vector<at::Tensor>> groups_;
};

// A prepared optimizer's parameters, as last looked at.
struct SteppedParameters {
  GroupFacts groups;
  // Those of no prepared model, by group and index; looked up at the next step if not set.
  std::optional<std::vector<std::pair<size_t, size_t>>> strange;
};

}  // namespace muster
