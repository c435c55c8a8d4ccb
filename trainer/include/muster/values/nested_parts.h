// How the types of nested.h hold tensors. Included by nested.h; not for direct use.
#pragma once

#include <torch/data/example.h>
#include <torch/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {
namespace nested_detail {

// Serializes the structure of a value, or reads it back: everything except the tensors.
class StructureBytes {
 public:
  StructureBytes() = default;  // writes
  explicit StructureBytes(std::string bytes) : bytes_(std::move(bytes)), reading_(true) {}

  bool reading() const { return reading_; }
  void raw(void* data, size_t size);
  void text(std::string& text);
  // The length of a list. While reading, it may not exceed the number of bytes left.
  void length(size_t& length);
  // Returns the bytes written; after reading, throws if some bytes were not read.
  std::string finish() const;

 private:
  std::string bytes_;
  size_t at_ = 0;
  bool reading_ = false;
};

// Traits of T: `nested` (it is Nested) and `plain` (it cannot hold a tensor). Both kinds have
// structure(value, bytes), which serializes everything except the tensors; Nested types also have
// visit(value, f), which calls f with every tensor.
template <typename T>
struct Parts {
  static constexpr bool plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
  static constexpr bool nested = false;
  static void structure(T& value, StructureBytes& bytes) { bytes.raw(&value, sizeof(T)); }
};

template <>
struct Parts<std::string> {
  static constexpr bool plain = true;
  static constexpr bool nested = false;
  static void structure(std::string& value, StructureBytes& bytes) { bytes.text(value); }
};

template <>
struct Parts<at::Tensor> {
  static constexpr bool plain = false;
  static constexpr bool nested = true;
  static void structure(at::Tensor&, StructureBytes&) {}
  template <typename Value, typename F>
  static void visit(Value& value, F& f) {
    f(value);
  }
};

template <typename Part, typename F>
void visit_part(Part& part, F& f) {
  using Known = Parts<std::remove_const_t<Part>>;
  if constexpr (Known::nested) Known::visit(part, f);
}

template <typename T>
struct Elements {
  static constexpr bool plain = Parts<T>::plain;
  static constexpr bool nested = Parts<T>::nested;
  template <typename Sequence, typename F>
  static void visit(Sequence& sequence, F& f) {
    for (auto& element : sequence) visit_part(element, f);
  }
  template <typename Sequence>
  static void structure(Sequence& sequence, StructureBytes& bytes) {
    for (auto& element : sequence) Parts<T>::structure(element, bytes);
  }
};

template <typename... Ts>
struct Members {
  static constexpr bool plain = false;
  static constexpr bool nested =
      ((Parts<Ts>::nested || Parts<Ts>::plain) && ...) && (Parts<Ts>::nested || ...);
  template <typename Tuple, typename F>
  static void visit(Tuple& tuple, F& f) {
    std::apply([&f](auto&... members) { (visit_part(members, f), ...); }, tuple);
  }
  template <typename Tuple>
  static void structure(Tuple& tuple, StructureBytes& bytes) {
    std::apply([&bytes](auto&... members) { (Parts<Ts>::structure(members, bytes), ...); }, tuple);
  }
};

template <typename T, typename Allocator>
struct Parts<std::vector<T, Allocator>> : Elements<T> {
  static void structure(std::vector<T, Allocator>& list, StructureBytes& bytes) {
    size_t length = list.size();
    bytes.length(length);
    list.resize(length);
    Elements<T>::structure(list, bytes);
  }
};
// Its elements are proxies, not bool&.
template <typename Allocator>
struct Parts<std::vector<bool, Allocator>> {
  static constexpr bool plain = false;
  static constexpr bool nested = false;
};
template <typename T, size_t size>
struct Parts<std::array<T, size>> : Elements<T> {};
template <typename... Ts>
struct Parts<std::tuple<Ts...>> : Members<Ts...> {};
template <typename First, typename Second>
struct Parts<std::pair<First, Second>> : Members<First, Second> {};

template <typename T>
struct Parts<std::optional<T>> : Elements<T> {
  template <typename Value, typename F>
  static void visit(Value& value, F& f) {
    if (value.has_value()) visit_part(*value, f);
  }
  static void structure(std::optional<T>& value, StructureBytes& bytes) {
    bool has_value = value.has_value();
    bytes.raw(&has_value, sizeof(has_value));
    if (bytes.reading()) value.reset();
    if (has_value && !value) value.emplace();
    if (has_value) Parts<T>::structure(*value, bytes);
  }
};

template <typename T, typename Compare, typename Allocator>
struct Parts<std::map<std::string, T, Compare, Allocator>> : Elements<T> {
  template <typename Map, typename F>
  static void visit(Map& map, F& f) {
    for (auto& [key, element] : map) visit_part(element, f);
  }
  template <typename Map>
  static void structure(Map& map, StructureBytes& bytes) {
    size_t length = map.size();
    bytes.length(length);
    if (bytes.reading()) map.clear();
    auto at = map.begin();
    for (size_t i = 0; i < length; ++i) {
      std::string key = bytes.reading() ? std::string() : at->first;
      bytes.text(key);
      T& element = bytes.reading() ? map[key] : (at++)->second;
      Parts<T>::structure(element, bytes);
    }
  }
};

template <typename Data, typename Target>
struct Parts<torch::data::Example<Data, Target>> : Members<Data, Target> {
  template <typename Value, typename F>
  static void visit(Value& example, F& f) {
    visit_part(example.data, f);
    visit_part(example.target, f);
  }
  static void structure(torch::data::Example<Data, Target>& example, StructureBytes& bytes) {
    Parts<Data>::structure(example.data, bytes);
    Parts<Target>::structure(example.target, bytes);
  }
};

template <typename Data>
struct Parts<torch::data::Example<Data, torch::data::example::NoTarget>> : Members<Data> {
  template <typename Value, typename F>
  static void visit(Value& example, F& f) {
    visit_part(example.data, f);
  }
  template <typename Value>
  static void structure(Value& example, StructureBytes& bytes) {
    Parts<Data>::structure(example.data, bytes);
  }
};

template <typename T>
struct Fields : std::false_type {};
template <typename... Ts>
struct Fields<std::tuple<Ts&...>> : std::bool_constant<(!std::is_const_v<Ts> && ...)> {
  using Of = Members<Ts...>;
};

// fields() must return std::tie of assignable members.
template <typename T>
concept HasFields = requires(T& value) {
  requires Fields<decltype(value.fields())>::value;
};

template <HasFields T>
struct Parts<T> : Fields<decltype(std::declval<T&>().fields())>::Of {
  template <typename Value, typename F>
  static void visit(Value& value, F& f) {
    constexpr bool read_only = std::is_const_v<Value>;
    // Types need only a non-const fields(): a const value is only read through it.
    const auto fields = const_cast<std::remove_const_t<Value>&>(value).fields();
    std::apply(
        [&f](auto&... members) {
          if constexpr (read_only) {
            (visit_part(std::as_const(members), f), ...);
          } else {
            (visit_part(members, f), ...);
          }
        },
        fields);
  }
  static void structure(T& value, StructureBytes& bytes) {
    auto fields = value.fields();
    Fields<decltype(fields)>::Of::structure(fields, bytes);
  }
};

// The type-independent parts of nested.h's functions, on flattened tensors.
[[noreturn]] void throw_tensor_count(size_t expected, size_t given);
int64_t batch_size_of(const std::vector<at::Tensor>& tensors);
at::Tensor slice_one(const at::Tensor& tensor, int64_t begin, int64_t end);
at::Tensor pad_input_one(const at::Tensor& tensor, int64_t batch_size, int64_t num_processes,
                         int64_t dim);
at::Tensor split_one(const at::Tensor& tensor, int rank, int world_size, bool apply_padding);
std::vector<at::Tensor> concatenate_each(const std::vector<std::vector<at::Tensor>>& values,
                                         int64_t dim);

}  // namespace nested_detail

}  // namespace muster
