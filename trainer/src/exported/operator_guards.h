// Checks of arguments that ATen's kernels leave to their callers: with others than a net's own they would read past their memory.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace muster {

// Throws muster::Error for arguments that the operator would not check.
using OperatorGuard = void (*)(const torch::jit::Stack& arguments);

// Null: the operator checks all of its arguments, as far as is known. `name`: of ATen, without its overload.
OperatorGuard find_operator_guard(std::string_view name);

}  // namespace muster
