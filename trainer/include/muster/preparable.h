// What Accelerator::prepare takes, and the sentence that the compiler says about everything else.
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <type_traits>

#include "muster/data_loader.h"
#include "muster/deferred_init.h"
#include "muster/prepared.h"
#include "muster/sampler.h"
#include "muster/schedule.h"

namespace muster {
namespace prepare_detail {

template <typename T>
struct IsOwn : std::false_type {};  // an instance of a template that prepare() takes
template <AnyDataset Dataset, typename Collate>
struct IsOwn<DataLoader<Dataset, Collate>> : std::true_type {};
template <typename Holder>
struct IsOwn<Deferred<Holder>> : std::true_type {};

template <typename T>
struct IsPrepared : std::false_type {};
template <>
struct IsPrepared<PreparedOptimizer> : std::true_type {};
template <>
struct IsPrepared<PreparedScheduler> : std::true_type {};
template <typename Holder>
struct IsPrepared<PreparedModel<Holder>> : std::true_type {};

// Returned after the sentence, so that the compiler has nothing to say about what follows it.
struct NotPrepared {
  template <typename... Arguments>
  at::Tensor operator()(Arguments&&...) const {
    return {};
  }
  torch::nn::Module* operator->() const { return nullptr; }
};

template <typename T>
NotPrepared refuse() {
  constexpr bool is_prepared = IsPrepared<T>::value;
  constexpr bool is_module = std::derived_from<T, torch::nn::Module>;
  static_assert(!is_prepared, "prepare(): this is prepared already, use it as it is");
  static_assert(!is_module,
                "prepare(): give it the module's holder (made by TORCH_MODULE) or a "
                "std::shared_ptr of the module, not the module itself");
  static_assert(is_prepared || is_module,
                "prepare(): this type is no module holder (made by TORCH_MODULE, or a "
                "std::shared_ptr of a torch::nn::Module), no torch::optim::Optimizer, "
                "muster::DataLoader, Schedule, ShardedSampler or Deferred model");
  return {};
}

}  // namespace prepare_detail

// Types without a reference. What turns into a Schedule or a ShardedSampler by itself is taken as
// that.
template <typename T>
concept Preparable = ModuleHandle<T> || OptimizerType<T> || prepare_detail::IsOwn<T>::value ||
    std::convertible_to<T, Schedule> || std::convertible_to<T, ShardedSampler>;

}  // namespace muster
