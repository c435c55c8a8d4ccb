// The types that Accelerator::prepare accepts, and the compiler error for all others.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <concepts>
#include <memory>
#include <type_traits>

#include "muster/accelerator/prepared.h"
#include "muster/data/data_loader.h"
#include "muster/data/sampler.h"
#include "muster/memory/deferred_init.h"
#include "muster/optim/schedule.h"

// Declared here, since their headers would cost every program a second to compile.
namespace torch::data {
template <typename Dataset, typename Batch, typename BatchRequest>
class DataLoaderBase;
}  // namespace torch::data
namespace torch::optim {
class LBFGS;
class LRScheduler;
class ReduceLROnPlateauScheduler;
}  // namespace torch::optim

namespace muster {
namespace prepare_detail {

template <typename T>
struct IsOwn : std::false_type {};  // an instance of a template that prepare() accepts
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

template <typename Dataset, typename Batch, typename Request>
void as_torch_loader(const torch::data::DataLoaderBase<Dataset, Batch, Request>*);
// What torch::data::make_data_loader returns, or another pointer of a LibTorch loader.
template <typename T>
concept TorchLoader = requires(const T& loader) {
  typename T::element_type;
  as_torch_loader(loader.get());
};

// Returned after the static_assert, so that the code that follows causes no further errors.
struct NotPrepared {
  template <typename... Arguments>
  at::Tensor operator()(Arguments&&...) const {
    return {};
  }
  torch::nn::Module* operator->() const { return nullptr; }
};

// An optimizer that is held by a pointer to its base class, as a factory of optimizers returns it.
template <typename T>
struct IsOptimizerPointer : std::false_type {};
template <std::derived_from<torch::optim::Optimizer> T>
struct IsOptimizerPointer<std::shared_ptr<T>> : std::true_type {};
template <std::derived_from<torch::optim::Optimizer> T>
struct IsOptimizerPointer<std::unique_ptr<T>> : std::true_type {};

// Whether T is a scheduler of torch; only those are complete types that a program can pass.
template <typename T>
concept TorchScheduler = std::is_base_of_v<torch::optim::LRScheduler, T> ||
    std::is_same_v<T, torch::optim::ReduceLROnPlateauScheduler>;

template <TorchLoader T>
std::shared_ptr<typename T::element_type> refuse() {
  static_assert(!TorchLoader<T>,
                "prepare(): a loader of torch::data::make_data_loader cannot be sharded over the "
                "ranks: write muster::DataLoader(dataset, {.batch_size = 64, .shuffle = true})");
  return {};
}
template <typename T>
NotPrepared refuse() {
  constexpr bool is_prepared = IsPrepared<T>::value;
  constexpr bool is_module = std::derived_from<T, torch::nn::Module>;
  static_assert(!is_prepared, "prepare(): this is already prepared, use it as it is");
  static_assert(!is_module,
                "prepare(): give it the module's holder (made by TORCH_MODULE) or a "
                "std::shared_ptr of the module, not the module itself");
  constexpr bool is_scheduler = TorchScheduler<T>;
  static_assert(!is_scheduler,
                "prepare(): a scheduler of torch knows nothing of skipped steps and checkpoints: "
                "give it a muster::Schedule, for example "
                "muster::step_schedule({.step_size = 30, .gamma = 0.1})");
  static_assert(is_prepared || is_module || is_scheduler,
                "prepare(): this type is not a module holder (made by TORCH_MODULE, or a "
                "std::shared_ptr of a torch::nn::Module), torch::optim::Optimizer, "
                "muster::DataLoader, Schedule, ShardedSampler or Deferred model");
  return {};
}

}  // namespace prepare_detail

// T is not a reference. Types that convert implicitly to a Schedule or ShardedSampler are accepted
// as such.
template <typename T>
concept Preparable = ModuleHandle<T> || OptimizerType<T> ||
    prepare_detail::IsOptimizerPointer<T>::value || prepare_detail::IsOwn<T>::value ||
    std::convertible_to<T, Schedule> || std::convertible_to<T, ShardedSampler>;

}  // namespace muster
