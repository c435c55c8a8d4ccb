#include "exported/number_step.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>

#include "exported/json_reader.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Arguments = std::vector<c10::IValue>;

bool are_whole(const Arguments& values) {
  for (const c10::IValue& value : values) {
    if (!value.isInt() && !value.isBool()) return false;
  }
  return true;
}

int64_t whole(const c10::IValue& value) {
  return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
}
double real(const c10::IValue& value) {
  return value.isDouble() ? value.toDouble() : static_cast<double>(whole(value));
}
bool truth(const c10::IValue& value) {
  if (value.isBool()) return value.toBool();
  if (value.isTensor()) return value.toTensor().item().toBool();
  return real(value) != 0;
}

[[noreturn]] void overflow() { throw Error("a number of the graph is larger than 64 bits"); }

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) throw Error("division by zero");
  if (a == INT64_MIN && b == -1) overflow();
  const int64_t quotient = a / b;
  return quotient - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

template <typename WholeFunction, typename RealFunction>
c10::IValue arithmetic(const Arguments& values, WholeFunction overflows, RealFunction of_reals) {
  if (!are_whole(values)) return of_reals(real(values[0]), real(values[1]));
  int64_t result = 0;
  if (overflows(whole(values[0]), whole(values[1]), &result)) overflow();
  return result;
}

c10::IValue add(const Arguments& values) {
  return arithmetic(
      values, [](int64_t a, int64_t b, int64_t* sum) { return __builtin_add_overflow(a, b, sum); },
      std::plus<>());
}
c10::IValue subtract(const Arguments& values) {
  return arithmetic(
      values,
      [](int64_t a, int64_t b, int64_t* rest) { return __builtin_sub_overflow(a, b, rest); },
      std::minus<>());
}
c10::IValue multiply(const Arguments& values) {
  return arithmetic(
      values,
      [](int64_t a, int64_t b, int64_t* product) { return __builtin_mul_overflow(a, b, product); },
      std::multiplies<>());
}
c10::IValue floor_divide(const Arguments& values) {
  if (are_whole(values)) return floor_quotient(whole(values[0]), whole(values[1]));
  return std::floor(real(values[0]) / real(values[1]));
}
c10::IValue modulo(const Arguments& values) {
  if (!are_whole(values)) {
    const double a = real(values[0]), b = real(values[1]);
    return a - b * std::floor(a / b);
  }
  const int64_t a = whole(values[0]), b = whole(values[1]);
  if (b == 0) throw Error("division by zero");
  if (b == -1) return int64_t{0};
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
c10::IValue divide(const Arguments& values) { return real(values[0]) / real(values[1]); }
c10::IValue power(const Arguments& values) {
  if (!are_whole(values) || whole(values[1]) < 0) return std::pow(real(values[0]), real(values[1]));
  int64_t result = 1;
  const int64_t base = whole(values[0]);
  int64_t left = whole(values[1]);
  if (base == 0 || base == 1) return left == 0 ? int64_t{1} : base;
  if (base == -1) return left % 2 == 0 ? int64_t{1} : int64_t{-1};
  for (; left > 0; --left) {
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  }
  return result;
}
c10::IValue negate(const Arguments& values) {
  if (!are_whole(values)) return -real(values[0]);
  return subtract({int64_t{0}, values[0]});
}
c10::IValue same(const Arguments& values) { return values[0]; }
c10::IValue as_whole(const Arguments& values) {
  if (are_whole(values)) return whole(values[0]);
  const double value = std::trunc(real(values[0]));
  if (!(std::fabs(value) < 9.2e18)) overflow();
  return static_cast<int64_t>(value);
}
c10::IValue round_up(const Arguments& values) {
  if (are_whole(values)) return whole(values[0]);
  return as_whole({std::ceil(real(values[0]))});
}
c10::IValue round_down(const Arguments& values) {
  if (are_whole(values)) return whole(values[0]);
  return as_whole({std::floor(real(values[0]))});
}
c10::IValue as_real(const Arguments& values) { return real(values[0]); }
c10::IValue root(const Arguments& values) { return std::sqrt(real(values[0])); }
c10::IValue invert(const Arguments& values) { return !truth(values[0]); }
c10::IValue choose(const Arguments& values) { return truth(values[0]) ? values[1] : values[2]; }

template <typename Compare>
bool compare(const Arguments& values) {
  if (are_whole(values)) return Compare()(whole(values[0]), whole(values[1]));
  return Compare()(real(values[0]), real(values[1]));
}
template <typename Compare>
c10::IValue comparison(const Arguments& values) {
  return compare<Compare>(values);
}
c10::IValue larger(const Arguments& values) { return values[compare<std::less<>>(values) ? 1 : 0]; }
c10::IValue smaller(const Arguments& values) {
  return values[compare<std::greater<>>(values) ? 1 : 0];
}
c10::IValue both(const Arguments& values) {
  if (values[0].isBool() && values[1].isBool()) return values[0].toBool() && values[1].toBool();
  return whole(values[0]) & whole(values[1]);
}
c10::IValue either(const Arguments& values) {
  if (values[0].isBool() && values[1].isBool()) return values[0].toBool() || values[1].toBool();
  return whole(values[0]) | whole(values[1]);
}
c10::IValue shift_left(const Arguments& values) {
  const int64_t by = whole(values[1]);
  if (by < 0 || by > 62) overflow();
  return multiply({values[0], int64_t{1} << by});
}
c10::IValue shift_right(const Arguments& values) {
  const int64_t by = whole(values[1]);
  if (by < 0) throw Error("a shift by a negative number");
  return whole(values[0]) >> std::min<int64_t>(by, 63);
}

struct Known {
  NumberStep::Function function;
  size_t arguments;
};

const Known* find_function(std::string_view target) {
  static const std::map<std::string_view, Known> known = {
      {"_operator.add", {add, 2}},
      {"_operator.and_", {both, 2}},
      {"_operator.eq", {comparison<std::equal_to<>>, 2}},
      {"_operator.floordiv", {floor_divide, 2}},
      {"_operator.ge", {comparison<std::greater_equal<>>, 2}},
      {"_operator.gt", {comparison<std::greater<>>, 2}},
      {"_operator.le", {comparison<std::less_equal<>>, 2}},
      {"_operator.lshift", {shift_left, 2}},
      {"_operator.lt", {comparison<std::less<>>, 2}},
      {"_operator.mod", {modulo, 2}},
      {"_operator.mul", {multiply, 2}},
      {"_operator.ne", {comparison<std::not_equal_to<>>, 2}},
      {"_operator.neg", {negate, 1}},
      {"_operator.or_", {either, 2}},
      {"_operator.pos", {same, 1}},
      {"_operator.pow", {power, 2}},
      {"_operator.rshift", {shift_right, 2}},
      {"_operator.sub", {subtract, 2}},
      {"_operator.truediv", {divide, 2}},
      {"math.ceil", {round_up, 1}},
      {"math.floor", {round_down, 1}},
      {"math.trunc", {as_whole, 1}},
      {"torch._sym_sqrt", {root, 1}},
      {"torch.sym_float", {as_real, 1}},
      {"torch.sym_int", {as_whole, 1}},
      {"torch.sym_ite", {choose, 3}},
      {"torch.sym_max", {larger, 2}},
      {"torch.sym_min", {smaller, 2}},
      {"torch.sym_not", {invert, 1}},
      {"torch.sym_sqrt", {root, 1}},
  };
  const auto found = known.find(target);
  return found == known.end() ? nullptr : &found->second;
}

}  // namespace

std::unique_ptr<GraphStep> NumberStep::make(const GraphNode& node, const std::string& where) {
  const Known* known = find_function(node.target);
  if (known == nullptr) return nullptr;
  auto step = std::make_unique<NumberStep>();
  step->function_ = known->function;
  step->target_ = node.target;
  std::vector<GraphArgument> arguments;
  for (const auto& [name, argument] : node.inputs) arguments.push_back(argument);
  step->arguments_ = GraphValues(std::move(arguments), where);
  if (step->arguments_.size() != known->arguments || node.outputs.size() != 1 ||
      !node.outputs[0].is_slot())
    throw FormatError(where + " has another number of arguments or results than it must");
  step->output_ = node.outputs[0].slot();
  return step;
}

void NumberStep::run(Frame& frame) const {
  try {
    frame.values[output_] = function_(arguments_.in(frame));
  } catch (const Error& error) {
    throw Error(target_ + ": " + error.what());
  }
}

}  // namespace muster
