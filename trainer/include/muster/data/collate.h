// Collates samples into a batch.
//
// default_collate stacks along a new dimension 0, as torch.utils.data's default_collate does:
//
//   sample                                        batch
//   at::Tensor                                    at::Tensor [samples, …]
//   float, double, bool                           at::Tensor [samples] of that type
//   other integers                                at::Tensor [samples], int64
//   std::string                                   std::vector<std::string>
//   pair, tuple, array, vector, map<string, …>,   the same container of collated parts; vectors
//   torch::data::Example                          must have equal lengths, maps equal keys
//   struct with fields() (nested.h)               the same struct; its parts must keep their types,
//                                                 so they are tensors or the above of tensors
//
// Your own collate function is anything callable as Batch(std::vector<Sample>); it must be const,
// and several threads may call it at once.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/values/nested.h"

namespace muster {

// Stacks tensors of equal shape and dtype along a new dimension 0. Throws std::invalid_argument
// naming the first that differs.
at::Tensor stack_samples(const std::vector<at::Tensor>& tensors);

namespace collate_detail {

at::Tensor collate_integers(const std::vector<int64_t>& values);
at::Tensor collate_floats(const std::vector<float>& values);
at::Tensor collate_doubles(const std::vector<double>& values);
at::Tensor collate_bools(const std::vector<int64_t>& values);
[[noreturn]] void throw_lengths(int64_t sample, size_t first, size_t other);
[[noreturn]] void throw_key(int64_t sample, const std::string& key);

// Collate<T>::from(count, part): the batch of part(0) to part(count - 1), all of type T.
template <typename T>
struct Collate {
  static_assert(
      std::is_arithmetic_v<T>,
      "default_collate does not support this sample type: see collate.h for the supported "
      "ones, or give the DataLoader a collate function");
  template <typename Part>
  static at::Tensor from(int64_t count, Part part) {
    using Number = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    std::vector<Number> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<Number>(part(i));
    if constexpr (std::is_same_v<T, bool>) {
      return collate_bools(values);
    } else if constexpr (std::is_same_v<T, float>) {
      return collate_floats(values);
    } else if constexpr (std::is_same_v<T, double>) {
      return collate_doubles(values);
    } else {
      static_assert(std::is_integral_v<T>, "long double has no tensor type");
      return collate_integers(values);
    }
  }
};

template <typename T>
using Collated = decltype(Collate<T>::from(0, std::declval<const T& (*)(int64_t)>()));

template <>
struct Collate<at::Tensor> {
  template <typename Part>
  static at::Tensor from(int64_t count, Part part) {
    std::vector<at::Tensor> tensors(count);
    for (int64_t i = 0; i < count; ++i) tensors[i] = part(i);
    return stack_samples(tensors);
  }
};

template <>
struct Collate<std::string> {
  template <typename Part>
  static std::vector<std::string> from(int64_t count, Part part) {
    std::vector<std::string> strings(count);
    for (int64_t i = 0; i < count; ++i) strings[i] = part(i);
    return strings;
  }
};

template <typename... Ts>
struct Collate<std::tuple<Ts...>> {
  template <typename Part>
  static auto from(int64_t count, Part part) {
    return each(count, part, std::index_sequence_for<Ts...>());
  }
  template <typename Part, size_t... places>
  static auto each(int64_t count, Part part, std::index_sequence<places...>) {
    return std::make_tuple(Collate<Ts>::from(
        count, [&](int64_t i) -> const Ts& { return std::get<places>(part(i)); })...);
  }
};

template <typename First, typename Second>
struct Collate<std::pair<First, Second>> {
  template <typename Part>
  static auto from(int64_t count, Part part) {
    return std::make_pair(
        Collate<First>::from(count, [&](int64_t i) -> const First& { return part(i).first; }),
        Collate<Second>::from(count, [&](int64_t i) -> const Second& { return part(i).second; }));
  }
};

template <typename T, size_t size>
struct Collate<std::array<T, size>> {
  template <typename Part>
  static auto from(int64_t count, Part part) {
    std::array<Collated<T>, size> batch;
    for (size_t k = 0; k < size; ++k) {
      batch[k] = Collate<T>::from(count, [&](int64_t i) -> const T& { return part(i)[k]; });
    }
    return batch;
  }
};

template <typename T>
struct Collate<std::vector<T>> {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements: use uint8_t");
  template <typename Part>
  static auto from(int64_t count, Part part) {
    std::vector<Collated<T>> batch;
    if (count == 0) return batch;
    const size_t length = part(0).size();
    for (int64_t i = 1; i < count; ++i) {
      if (part(i).size() != length) throw_lengths(i, length, part(i).size());
    }
    for (size_t k = 0; k < length; ++k) {
      batch.push_back(Collate<T>::from(count, [&](int64_t i) -> const T& { return part(i)[k]; }));
    }
    return batch;
  }
};

template <typename T>
struct Collate<std::map<std::string, T>> {
  template <typename Part>
  static auto from(int64_t count, Part part) {
    std::map<std::string, Collated<T>> batch;
    if (count == 0) return batch;
    for (int64_t i = 1; i < count; ++i) {
      if (part(i).size() != part(0).size()) throw_lengths(i, part(0).size(), part(i).size());
    }
    for (const auto& [key, unused] : part(0)) {
      batch[key] = Collate<T>::from(count, [&, &name = key](int64_t i) -> const T& {
        const auto found = part(i).find(name);
        if (found == part(i).end()) throw_key(i, name);
        return found->second;
      });
    }
    return batch;
  }
};

template <typename Data, typename Target>
struct Collate<torch::data::Example<Data, Target>> {
  template <typename Part>
  static auto from(int64_t count, Part part) {
    return torch::data::Example<Collated<Data>, Collated<Target>>(
        Collate<Data>::from(count, [&](int64_t i) -> const Data& { return part(i).data; }),
        Collate<Target>::from(count, [&](int64_t i) -> const Target& { return part(i).target; }));
  }
};

template <typename Data>
struct Collate<torch::data::Example<Data, torch::data::example::NoTarget>> {
  template <typename Part>
  static auto from(int64_t count, Part part) {
    return torch::data::Example<Collated<Data>, torch::data::example::NoTarget>(
        Collate<Data>::from(count, [&](int64_t i) -> const Data& { return part(i).data; }));
  }
};

template <nested_detail::HasFields T>
struct Collate<T> {
  using Fields = decltype(std::declval<T&>().fields());
  template <typename Part>
  static T from(int64_t count, Part part) {
    T batch{};
    each(batch, count, part, std::make_index_sequence<std::tuple_size_v<Fields>>());
    return batch;
  }
  template <typename Part, size_t... places>
  static void each(T& batch, int64_t count, Part part, std::index_sequence<places...>) {
    (field<places>(batch, count, part), ...);
  }
  template <size_t place, typename Part>
  static void field(T& batch, int64_t count, Part part) {
    using Field = std::remove_reference_t<std::tuple_element_t<place, Fields>>;
    static_assert(
        std::is_same_v<Field, Collated<Field>>,
        "default_collate keeps a struct's type, so each of its fields() must be a tensor or "
        "a container of tensors; give the DataLoader a collate function otherwise");
    std::get<place>(batch.fields()) = Collate<Field>::from(count, [&](int64_t i) -> const Field& {
      return std::get<place>(const_cast<T&>(part(i)).fields());
    });
  }
};

}  // namespace collate_detail

// See the top of this file. Throws std::invalid_argument naming the sample (its index in the batch)
// whose shape, dtype, length or keys differ from the first one's.
template <typename Sample>
auto default_collate(const std::vector<Sample>& samples) {
  static_assert(!std::is_same_v<Sample, bool>, "std::vector<bool> has no elements: use uint8_t");
  return collate_detail::Collate<Sample>::from(
      static_cast<int64_t>(samples.size()),
      [&](int64_t i) -> const Sample& { return samples[static_cast<size_t>(i)]; });
}

// A DataLoader's collate function unless another one is given.
struct DefaultCollate {
  template <typename Sample>
  auto operator()(const std::vector<Sample>& samples) const {
    return default_collate(samples);
  }
};

}  // namespace muster
