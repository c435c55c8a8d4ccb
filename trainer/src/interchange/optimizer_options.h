// The options of a group of any optimizer, by the names that they have in Python.
#pragma once

#include <torch/optim/optimizer.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "muster/optim/optimizers.h"

namespace muster {

struct GroupOption {
  const char* name;
  std::variant<double*, bool*, std::pair<double, double>*, std::tuple<double, double>*> value;
};

struct GroupOptions {
  std::vector<GroupOption> options;
  Implementation* implementation = nullptr;  // null: torch::optim's have none
  bool has_capturable = false;
  // Adam: whether the decay is that of AdamW.
  std::optional<bool> decoupled = {};
  // Adagrad, whose state begins before the first step.
  std::optional<double> initial_sum = {};
};

// They point into the optimizer. Throws CheckpointError for one that a file cannot hold.
GroupOptions group_options(torch::optim::Optimizer& optimizer, size_t group);

}  // namespace muster
