// Which operators a foreign graph may call, and which of them follow train() and eval(). No torch.
#pragma once

#include <string_view>

namespace muster {

// Why a graph may not call the operator of ATen, without its namespace and overload; empty: it may.
std::string_view refusal_of(std::string_view name);

// An operator with an argument for the mode.
struct ModeOperator {
  std::string_view name;  // without its overload
  // The argument that is true in training; empty: the probability is 0 in evaluation.
  std::string_view flag;
  // If this is 0, the operator is the same in both modes; empty: there is none.
  std::string_view probability = {};
  // If this argument is None, the operator is the same in both modes; empty: there is none.
  std::string_view statistics = {};
};
const ModeOperator* find_mode_operator(std::string_view name);

// Draws random numbers, and no argument says whether only in training.
bool is_random(std::string_view name);

}  // namespace muster
