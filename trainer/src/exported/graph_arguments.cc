#include "exported/graph_arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <torch/types.h>

#include <optional>
#include <utility>

#include "checkpoint/safetensors_file.h"
#include "exported/program_json.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Kind = GraphArgument::Kind;

// Of schema.py's ScalarType, MemoryFormat and Layout.
std::optional<at::ScalarType> scalar_type_of(int64_t code) {
  if (code == 9) return at::kComplexHalf;  // these two are in no file of weights
  if (code == 11) return at::kComplexDouble;
  const std::string name(exported_dtype(code));
  if (name.empty()) return std::nullopt;
  return torch_dtype(name, "a dtype");
}

std::optional<at::MemoryFormat> memory_format_of(int64_t code) {
  switch (code) {
    case 1:
      return at::MemoryFormat::Contiguous;
    case 2:
      return at::MemoryFormat::ChannelsLast;
    case 3:
      return at::MemoryFormat::ChannelsLast3d;
    case 4:
      return at::MemoryFormat::Preserve;
    default:
      return std::nullopt;
  }
}

constexpr int64_t kStrided = 7;

at::Tensor number_tensor(const at::Scalar& number) {
  return at::native::wrapped_scalar_tensor(number);
}

const c10::TypePtr& element_type(const c10::TypePtr& list) {
  return list->expectRef<c10::ListType>().getElementType();
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  if (type->kind() != c10::TypeKind::OptionalType) return type;
  return type->expectRef<c10::OptionalType>().getElementType();
}

bool is_integer_type(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::IntType || type->kind() == c10::TypeKind::SymIntType;
}

[[noreturn]] void refuse(const std::string& where, const c10::Argument& wanted) {
  throw FormatError(where + ": argument '" + wanted.name() + "' is not a " + wanted.type()->str() +
                    ", as the operator wants");
}

// dtypes, layouts and memory formats are numbers for the dispatcher, which looks them up in tables without a check.
void check_enumeration(const GraphArgument& argument, const c10::Argument& wanted,
                       const std::string& where) {
  if (argument.kind == Kind::none) return;
  const auto is = [&](Kind kind) { return argument.kind == kind; };
  bool fits = true;
  switch (without_optional(wanted.real_type())->kind()) {
    case c10::TypeKind::ScalarTypeType:
      fits = is(Kind::scalar_type);
      break;
    case c10::TypeKind::LayoutType:
      fits = is(Kind::layout);
      break;
    case c10::TypeKind::MemoryFormatType:
      fits = is(Kind::memory_format);
      break;
    default:
      fits = !is(Kind::scalar_type) && !is(Kind::layout) && !is(Kind::memory_format);
  }
  if (!fits) refuse(where, wanted);
}

// A list of constants; the generic one has boxed elements.
c10::IValue constant_list(const std::vector<GraphArgument>& items, const c10::TypePtr& element,
                          const std::string& where, const c10::Argument& wanted);

c10::IValue constant_of(const GraphArgument& argument, const c10::TypePtr& wanted_type,
                        const std::string& where, const c10::Argument& wanted) {
  const c10::TypePtr type = without_optional(wanted_type);
  const auto kind = type->kind();
  switch (argument.kind) {
    case Kind::none:
      if (wanted_type->kind() == c10::TypeKind::OptionalType) return {};
      break;
    case Kind::integer:
      if (kind == c10::TypeKind::FloatType) return static_cast<double>(argument.integer);
      if (kind == c10::TypeKind::TensorType) return number_tensor(argument.integer);
      if (kind == c10::TypeKind::NumberType || is_integer_type(type)) return argument.integer;
      break;
    case Kind::real:
      if (kind == c10::TypeKind::TensorType) return number_tensor(argument.real);
      if (kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType)
        return argument.real;
      break;
    case Kind::boolean:
      if (kind == c10::TypeKind::TensorType) return number_tensor(argument.integer != 0);
      if (kind == c10::TypeKind::NumberType || kind == c10::TypeKind::BoolType)
        return argument.integer != 0;
      break;
    case Kind::complex: {
      const c10::complex<double> number(argument.real, argument.imaginary);
      if (kind == c10::TypeKind::TensorType) return number_tensor(number);
      if (kind == c10::TypeKind::NumberType) return number;
      break;
    }
    case Kind::text:
      if (kind == c10::TypeKind::StringType) return argument.text;
      break;
    case Kind::scalar_type:
    case Kind::memory_format:
    case Kind::layout:
      if (is_integer_type(type)) return plain_constant(argument, where);
      break;
    case Kind::list:
      if (kind == c10::TypeKind::ListType)
        return constant_list(argument.items, element_type(type), where, wanted);
      break;
    case Kind::slot:
    case Kind::device:
    case Kind::graph:
      break;
  }
  refuse(where, wanted);
}

c10::IValue constant_list(const std::vector<GraphArgument>& items, const c10::TypePtr& element,
                          const std::string& where, const c10::Argument& wanted) {
  const auto fill = [&](auto list, const auto& read) -> c10::IValue {
    for (const GraphArgument& item : items)
      list.push_back(read(constant_of(item, element, where, wanted)));
    return list;
  };
  switch (element->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return fill(c10::List<int64_t>(), [](const c10::IValue& each) { return each.toInt(); });
    case c10::TypeKind::FloatType:
      return fill(c10::List<double>(), [](const c10::IValue& each) { return each.toDouble(); });
    case c10::TypeKind::BoolType:
      return fill(c10::List<bool>(), [](const c10::IValue& each) { return each.toBool(); });
    case c10::TypeKind::StringType:
      return fill(c10::List<std::string>(),
                  [](const c10::IValue& each) { return each.toStringRef(); });
    case c10::TypeKind::NumberType:
      return fill(c10::impl::GenericList(element), [](const c10::IValue& each) { return each; });
    default:
      refuse(where, wanted);
  }
}

bool holds_slot(const std::vector<GraphArgument>& items) {
  for (const GraphArgument& item : items) {
    if (item.is_slot()) return true;
  }
  return false;
}

at::Tensor as_tensor(const c10::IValue& value) {
  return value.isScalar() ? number_tensor(value.toScalar()) : value.toTensor();
}

}  // namespace

c10::IValue plain_constant(const GraphArgument& argument, const std::string& where) {
  switch (argument.kind) {
    case Kind::none:
      return {};
    case Kind::integer:
      return argument.integer;
    case Kind::real:
      return argument.real;
    case Kind::boolean:
      return argument.integer != 0;
    case Kind::text:
      return argument.text;
    case Kind::scalar_type:
      if (const auto type = scalar_type_of(argument.integer)) return static_cast<int64_t>(*type);
      throw FormatError(where + ": dtype " + std::to_string(argument.integer) + " is not known");
    case Kind::memory_format:
      if (const auto format = memory_format_of(argument.integer))
        return static_cast<int64_t>(*format);
      throw FormatError(where + ": memory format " + std::to_string(argument.integer) +
                        " is not known");
    case Kind::layout:
      if (argument.integer == kStrided) return static_cast<int64_t>(at::kStrided);
      throw FormatError(where + ": only strided tensors are made, not those of layout " +
                        std::to_string(argument.integer));
    default:
      throw FormatError(where + ": an argument is of a kind that cannot be used here");
  }
}

ArgumentSource ArgumentSource::constant(c10::IValue value) {
  ArgumentSource source(Kind::constant);
  source.constant_ = std::move(value);
  return source;
}

ArgumentSource ArgumentSource::in_training(c10::IValue value, const torch::nn::Module* module) {
  ArgumentSource source(value.isBool() ? Kind::training_flag : Kind::training_probability);
  source.constant_ = std::move(value);
  source.module_ = module;
  return source;
}

ArgumentSource ArgumentSource::make(const GraphArgument& argument, const c10::Argument& wanted,
                                    const std::string& where) {
  const c10::TypePtr type = without_optional(wanted.type());
  check_enumeration(argument, wanted, where);
  if (argument.kind == muster::Kind::device) {
    if (type->kind() != c10::TypeKind::DeviceObjType) refuse(where, wanted);
    if (argument.text == "meta") return constant(c10::Device(at::kMeta));
    return of_device();
  }
  if (argument.is_slot()) {
    const bool is_tensor = type->kind() == c10::TypeKind::TensorType;
    ArgumentSource source(is_tensor ? Kind::tensor_slot : Kind::slot);
    source.slot_ = argument.slot();
    if (type->kind() == c10::TypeKind::ListType) {
      // A number where a list is wanted, as Python allows.
      source.kind_ = Kind::integers;
      source.items_.assign(static_cast<size_t>(wanted.N().value_or(1)), argument);
    }
    return source;
  }
  if (type->kind() != c10::TypeKind::ListType)
    return constant(constant_of(argument, wanted.type(), where, wanted));
  if (argument.kind == muster::Kind::none && type != wanted.type()) return constant({});
  std::vector<GraphArgument> items = argument.items;
  if (argument.kind != muster::Kind::list)
    items.assign(static_cast<size_t>(wanted.N().value_or(1)), argument);
  const c10::TypePtr& element = element_type(type);
  const auto dynamic = [&](Kind kind) {
    ArgumentSource source(kind);
    source.items_ = std::move(items);
    return source;
  };
  if (element->kind() == c10::TypeKind::TensorType) {
    for (const GraphArgument& item : items) {
      if (!item.is_slot()) refuse(where, wanted);
    }
    return dynamic(Kind::tensors);
  }
  if (element->kind() == c10::TypeKind::OptionalType) {
    for (const GraphArgument& item : items) {
      const bool fits = item.is_slot() || item.kind == muster::Kind::none;
      if (!fits || without_optional(element)->kind() != c10::TypeKind::TensorType)
        refuse(where, wanted);
    }
    return dynamic(Kind::optional_tensors);
  }
  if (!holds_slot(items)) return constant(constant_list(items, element, where, wanted));
  if (!is_integer_type(element)) refuse(where, wanted);
  for (const GraphArgument& item : items) {
    if (!item.is_slot() && item.kind != muster::Kind::integer) refuse(where, wanted);
  }
  return dynamic(Kind::integers);
}

c10::IValue ArgumentSource::value(const Frame& frame) const {
  switch (kind_) {
    case Kind::constant:
      return constant_;
    case Kind::slot:
      return frame.values[slot_];
    case Kind::tensor_slot: {
      const c10::IValue& value = frame.values[slot_];
      return value.isScalar() ? c10::IValue(number_tensor(value.toScalar())) : value;
    }
    case Kind::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(items_.size());
      for (const GraphArgument& item : items_) list.push_back(as_tensor(frame.values[item.slot()]));
      return list;
    }
    case Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(items_.size());
      for (const GraphArgument& item : items_) {
        if (item.is_slot()) {
          list.push_back(as_tensor(frame.values[item.slot()]));
        } else {
          list.push_back(std::nullopt);
        }
      }
      return list;
    }
    case Kind::integers: {
      c10::List<int64_t> list;
      list.reserve(items_.size());
      for (const GraphArgument& item : items_)
        list.push_back(item.is_slot() ? frame.values[item.slot()].toInt() : item.integer);
      return list;
    }
    case Kind::device:
      return frame.context.device;
    case Kind::training_flag:
      return module_->is_training() && constant_.toBool();
    case Kind::training_probability:
      return module_->is_training() ? constant_ : c10::IValue(0.0);
  }
  return {};
}

GraphValues::GraphValues(std::vector<GraphArgument> arguments, const std::string& where)
    : arguments_(std::move(arguments)) {
  for (const GraphArgument& argument : arguments_)
    constants_.push_back(argument.is_slot() ? c10::IValue() : plain_constant(argument, where));
}

std::vector<c10::IValue> GraphValues::in(const Frame& frame) const {
  std::vector<c10::IValue> values = constants_;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].is_slot()) values[i] = frame.values[arguments_[i].slot()];
  }
  return values;
}

void store_results(const std::vector<GraphArgument>& outputs, std::vector<c10::IValue> results,
                   Frame& frame, const std::string& where) {
  // One list for all outputs: an operator that returns Tensor[], or a graph's tuple.
  if (outputs.size() == 1 && outputs[0].kind == Kind::list && results.size() != 1) {
    return store_results(outputs[0].items, std::move(results), frame, where);
  }
  if (outputs.size() != results.size()) {
    throw Error(where + " returned " + std::to_string(results.size()) + " values, not " +
                std::to_string(outputs.size()) + " as in the file");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_slot()) {
      frame.values[outputs[i].slot()] = std::move(results[i]);
    } else if (outputs[i].kind == Kind::list) {
      if (!results[i].isTensorList()) throw Error(where + " returned a value that is not a list");
      std::vector<c10::IValue> items;
      for (const at::Tensor& tensor : results[i].toTensorVector()) items.emplace_back(tensor);
      store_results(outputs[i].items, std::move(items), frame, where);
    }
  }
}

}  // namespace muster
