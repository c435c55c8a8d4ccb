#include "exported/input_rules.h"

#include <stdexcept>

#include "checkpoint/safetensors_file.h"

namespace muster {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string place(const std::string& name, size_t dimension) {
  return "dimension " + std::to_string(dimension) + " of input '" + name + "'";
}

}  // namespace

InputRules::InputRules(const ExportedProgram& program, const std::string& where)
    : ranges_(program.ranges) {
  for (const ProgramInput& input : program.inputs) {
    if (input.kind != ProgramInput::Kind::user || !input.value.is_slot()) continue;
    Rule rule{.name = input.name,
              .is_tensor = input.tensor.has_value(),
              .wants_integer = input.is_integer};
    if (input.tensor.has_value()) {
      rule.dtype = torch_dtype(input.tensor->dtype, where + ": input '" + input.name + "'");
      rule.sizes = input.tensor->sizes;
    }
    names_.push_back(rule.name);
    rules_.push_back(std::move(rule));
  }
}

std::vector<c10::IValue> InputRules::check(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != rules_.size()) {
    throw std::invalid_argument("the net takes " + std::to_string(rules_.size()) + " inputs (" +
                                joined(names_) + "), but is called with " +
                                std::to_string(inputs.size()));
  }
  std::vector<c10::IValue> values;
  // Of each symbol its value, and where it was first seen.
  std::map<std::string, std::pair<int64_t, std::string>> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Rule& rule = rules_[i];
    if (!inputs[i].defined())
      throw std::invalid_argument("input '" + rule.name + "' is an undefined tensor");
    if (rule.is_tensor) {
      check_tensor(rule, inputs[i], symbols);
      values.emplace_back(inputs[i]);
    } else if (inputs[i].dim() == 0) {
      values.emplace_back(inputs[i].item());
      if (rule.wants_integer && !values.back().isInt())
        throw std::invalid_argument("input '" + rule.name +
                                    "' is a whole number: it must be an integer tensor");
    } else {
      throw std::invalid_argument("input '" + rule.name +
                                  "' is a number: it must be a tensor of no dimensions");
    }
  }
  return values;
}

void InputRules::check_tensor(
    const Rule& rule, const at::Tensor& tensor,
    std::map<std::string, std::pair<int64_t, std::string>>& symbols) const {
  if (tensor.scalar_type() != rule.dtype) {
    throw std::invalid_argument("input '" + rule.name + "' is " +
                                c10::toString(tensor.scalar_type()) +
                                ", but the net was exported with " + c10::toString(rule.dtype) +
                                "; fix: convert it with to()");
  }
  if (static_cast<size_t>(tensor.dim()) != rule.sizes.size()) {
    throw std::invalid_argument("input '" + rule.name + "' has the shape " +
                                c10::str(tensor.sizes()) + ", but the net was exported for " +
                                std::to_string(rule.sizes.size()) + " dimensions");
  }
  for (size_t i = 0; i < rule.sizes.size(); ++i) {
    const SymbolicSize& wanted = rule.sizes[i];
    const int64_t size = tensor.size(static_cast<int64_t>(i));
    const auto refuse = [&](const std::string& reason) {
      throw std::invalid_argument(place(rule.name, i) + " is " + std::to_string(size) + reason);
    };
    if (!wanted.is_known) continue;
    if (wanted.symbol.empty() || wanted.factor == 0) {
      if (size != wanted.offset) {
        refuse(", but the net was exported for " + std::to_string(wanted.offset) +
               " alone; fix: export it with that dimension dynamic (python -m muster.export "
               "--dynamic " +
               rule.name + ":" + std::to_string(i) + ")");
      }
      continue;
    }
    int64_t rest = 0;
    const bool divides = !__builtin_sub_overflow(size, wanted.offset, &rest) &&
                         wanted.factor != -1 && rest % wanted.factor == 0;
    if (!divides) {
      refuse(", but must be a multiple of " + std::to_string(wanted.factor) +
             (wanted.offset == 0 ? "" : ", and " + std::to_string(wanted.offset)));
    }
    const int64_t value = rest / wanted.factor;
    const auto range = ranges_.find(wanted.symbol);
    if (range != ranges_.end() && (value < range->second.least || value > range->second.most)) {
      // Of any size that is not one of a tensor.
      constexpr int64_t kAny = int64_t{1} << 40;
      const auto bound = [&](int64_t limit) -> std::string {
        int64_t scaled = 0;
        const bool fits = limit < kAny && !__builtin_mul_overflow(wanted.factor, limit, &scaled) &&
                          !__builtin_add_overflow(scaled, wanted.offset, &scaled);
        return fits ? std::to_string(scaled) : "any";
      };
      refuse(", but the net was exported for " + bound(range->second.least) + " to " +
             bound(range->second.most));
    }
    const auto [known, is_new] = symbols.try_emplace(wanted.symbol, value, place(rule.name, i));
    if (!is_new && known->second.first != value) {
      refuse(", which does not fit " + known->second.second + ": " +
             std::to_string(known->second.first) + " stands for the same size");
    }
  }
}

}  // namespace muster
