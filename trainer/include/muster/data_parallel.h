// Data parallelism: every rank holds the whole model, gradients are averaged during backward.
//
// Built on torch's own c10d::Reducer, so that buckets, overlap of communication with backward and
// numbers are those of Python's DistributedDataParallel. Parameter names never get a "module."
// prefix. All functions are called from the training thread; some are collective: all ranks must
// call them at the same point. Source: torch/nn/parallel/distributed.py and
// csrc/distributed/c10d/reducer.cpp.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace muster {

struct DataParallelOptions {
  int64_t bucket_cap_mb = 25;       // gradients are reduced in buckets of this size, in MiB
  int64_t first_bucket_cap_mb = 1;  // the first one is small, so that communication starts early
  // Gradients live inside the buckets, which saves one copy of all gradients. zero_grad() must then
  // be the one of PreparedOptimizer (torch's throws "Can't detach views in-place").
  bool gradient_as_bucket_view = true;
  // Buffers (running means, for instance) of rank 0 are sent to all before each training forward.
  bool broadcast_buffers = true;
};

// What surrounds the forward pass of one model. Users meet it through PreparedModel.
class DataParallel {
 public:
  struct State;

  explicit DataParallel(std::unique_ptr<State> state);
  ~DataParallel();

  // Around each forward pass. With gradients enabled they prepare the reduction that the next
  // backward() performs; without (torch::NoGradGuard) they do nothing, so evaluation may differ
  // from rank to rank.
  void before_forward();
  void after_forward();

  // While false, backward() adds to the local gradients and reduces nothing.
  void set_synchronizing(bool synchronizing);
  bool synchronizing() const;

  // The parameters' indices by bucket, in the order of reduction; empty in a world of one. With
  // three ranks and more the sums depend on it, so an exact resume restores it. Collective.
  std::vector<std::vector<int64_t>> bucket_order();
  void set_bucket_order(const std::vector<std::vector<int64_t>>& order);

  torch::nn::Module& module() const;

 private:
  std::unique_ptr<State> state_;
};

// A model that Accelerator::prepare returned: call it like the model itself. Holder is a LibTorch
// module holder (made by TORCH_MODULE) or a std::shared_ptr of a module. Copies share the model.
template <typename Holder>
class PreparedModel {
 public:
  PreparedModel(Holder module, std::shared_ptr<DataParallel> data_parallel)
      : module_(std::move(module)), data_parallel_(std::move(data_parallel)) {}

  // The module's forward.
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    data_parallel_->before_forward();
    auto output = module_->forward(std::forward<Arguments>(arguments)...);
    data_parallel_->after_forward();
    return output;
  }

  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }

  // The module as it was given to prepare().
  Holder& unwrap() { return module_; }
  DataParallel& data_parallel() { return *data_parallel_; }

 private:
  Holder module_;
  std::shared_ptr<DataParallel> data_parallel_;
};

// While it lives, backward() of the model adds gradients up without reducing them; forward must run
// inside as well. Scope it around all but the last micro-batch of an accumulation.
class NoSync {
 public:
  template <typename Holder>
  explicit NoSync(PreparedModel<Holder>& model) : NoSync(model.data_parallel()) {}
  explicit NoSync(DataParallel& data_parallel)
      : data_parallel_(data_parallel), before_(data_parallel.synchronizing()) {
    data_parallel_.set_synchronizing(false);
  }
  ~NoSync() { data_parallel_.set_synchronizing(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  DataParallel& data_parallel_;
  bool before_;
};

}  // namespace muster
