// The sizes in an exported net as numbers and symbols. Source: sympy's srepr, which torch writes: "Add(Mul(Integer(2),
// Symbol('s0', positive=True, integer=True)), Integer(1))". No torch.
#pragma once

#include <string_view>

#include "exported/exported_program.h"

namespace muster {

// Anything but factor * symbol + offset is not known.
SymbolicSize parse_symbolic_size(std::string_view expression);

}  // namespace muster
