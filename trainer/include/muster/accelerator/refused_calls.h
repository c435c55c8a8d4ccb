// What LibTorch and Python programs write on a model, an optimizer or a schedule and what a prepared
// one does not do. Each is a compiler error of one sentence; none of it exists at run time.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <concepts>
#include <exception>

#include "muster/base/refused.h"

namespace muster {

// Of PreparedModel<Holder>.
template <typename Holder>
class RefusedByModel {
 public:
  // A conversion, so that the sentence appears where a function takes the bare module.
  template <typename T>
  requires std::same_as<T, Holder> || std::derived_from<T, torch::nn::Module>
  operator T&() const {
    static_assert(refused::when_called<T>,
                  "a prepared model is not its module, whose forward would not average gradients: "
                  "let the function take `auto& model`, or give it model.unwrap()");
    std::terminate();
  }
  template <typename... Arguments>
  refused::Nothing zero_grad(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.zero_grad(): write optimizer.zero_grad(), which knows the accumulation "
                  "window and the shards");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing apply(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.apply(): initialize the module before prepare(), which gives all ranks "
                  "the same weights; model.unwrap()->apply() changes this rank's only");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing clone(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.clone(): clone the module before prepare(); for an average of the weights "
                  "use muster::ExponentialMovingAverage");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.state_dict(): write accelerator.get_state_dict(model)");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing load_state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.load_state_dict(): write muster::load_model(*net, path) before prepare(), "
                  "or accelerator.load_state() for a checkpoint of the run");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing save(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.save(): write accelerator.save_model(model, directory)");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing load(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.load(): write muster::load_model(*net, path) before prepare()");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing no_sync(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "model.no_sync(): write auto scope = accelerator.no_sync(model)");
    return {};
  }
};

// Of PreparedOptimizer.
class RefusedByOptimizer {
 public:
  template <std::derived_from<torch::optim::Optimizer> T>
  operator T&() const {
    static_assert(refused::when_called<T>,
                  "a prepared optimizer is not a torch::optim::Optimizer: let the function take "
                  "muster::PreparedOptimizer&, and prepare() a muster::Schedule instead of a "
                  "scheduler of torch; or give it optimizer.unwrap()");
    std::terminate();
  }
  template <typename... Arguments>
  refused::Nothing state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "optimizer.state_dict(): accelerator.save_state(step) saves it");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing load_state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "optimizer.load_state_dict(): accelerator.load_state() loads it");
    return {};
  }
};

// Of PreparedScheduler.
class RefusedByScheduler {
 public:
  template <typename... Arguments>
  refused::Nothing state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "scheduler.state_dict(): accelerator.save_state(step) saves it");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing load_state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "scheduler.load_state_dict(): accelerator.load_state() loads it");
    return {};
  }
};

namespace refused {
template <typename Holder>
void as_prepared(const RefusedByModel<Holder>&);
void as_prepared(const RefusedByOptimizer&);
void as_prepared(const RefusedByScheduler&);
template <typename T>
concept Archived = requires(const T& handle) {
  as_prepared(handle);
};
}  // namespace refused

// torch::save(model, path) and torch::load(model, path).
template <refused::Archived T>
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const T&) {
  static_assert(refused::when_called<T>,
                "torch::save() would write a prepared object on every rank, and of a sharded one a "
                "part: write accelerator.save_model(model, directory) or save_state(step)");
  return archive;
}
template <refused::Archived T>
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, T&) {
  static_assert(refused::when_called<T>,
                "torch::load() cannot load into a prepared object: write torch::load(net, path) or "
                "muster::load_model(*net, path) before prepare(), or accelerator.load_state()");
  return archive;
}

}  // namespace muster
