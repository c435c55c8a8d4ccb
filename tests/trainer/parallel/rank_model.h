// The model and the numbers that the rank programs and their Python twin (ddp_twin.py) share.
#pragma once

#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "muster/parallel/data_parallel.h"
#include "muster/values/nested.h"
#include "parallel/data_parallel_factory.h"

namespace muster {

// Several buckets of 1 MiB, buffers, and an optional branch.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width = 600) {
    first = register_module("first", torch::nn::Linear(16, 300));
    norm = register_module("norm", torch::nn::BatchNorm1d(300));
    spare = register_module("spare", torch::nn::Linear(300, 4));
    second = register_module("second", torch::nn::Linear(300, width));
    third = register_module("third", torch::nn::Linear(width, width));
    last = register_module("last", torch::nn::Linear(width, 4));
  }
  // The spare branch's output is undefined when it is not computed.
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& input, bool with_spare) {
    const at::Tensor hidden = torch::relu(norm(first(input)));
    at::Tensor side;
    if (with_spare) side = spare(hidden);
    return {last(torch::relu(third(torch::relu(second(hidden))))), side};
  }
  torch::nn::Linear first{nullptr}, spare{nullptr}, second{nullptr}, third{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

// The same weights in both languages; ranks other than 0 start with different ones, which must be
// overwritten.
inline void fill(torch::nn::Module& module, int rank) {
  const torch::NoGradGuard no_grad;
  int64_t index = 0;
  for (at::Tensor& parameter : module.parameters()) {
    const at::Tensor line = torch::arange(parameter.numel(), at::kFloat);
    parameter.copy_((torch::sin(line * 0.37 + index + rank) * 0.1).view(parameter.sizes()));
    ++index;
  }
}

inline at::Tensor input_of(int rank, int step) {
  return torch::sin(torch::arange(6 * 16, at::kFloat) * 0.11 + rank * 3 + step).view({6, 16});
}

// A number that changes when one bit of a tensor does; computed alike in Python.
inline int64_t fingerprint(const std::vector<at::Tensor>& tensors) {
  uint64_t sum = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bits = tensor.detach().to(at::kFloat).flatten().view(at::kInt).to(at::kLong);
    const at::Tensor weighted = bits * torch::arange(1, bits.numel() + 1);
    sum = sum * 31 + static_cast<uint64_t>(weighted.sum().item<int64_t>());
  }
  return static_cast<int64_t>(sum);
}

inline void say(const std::string& name, const std::string& value) {
  std::printf("%s %s\n", name.c_str(), value.c_str());
  std::fflush(stdout);
}
inline void say(const std::string& name, bool value) {
  say(name, std::string(value ? "yes" : "no"));
}

inline void descend(torch::nn::Module& module, double rate) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    if (parameter.grad().defined()) parameter.add_(parameter.grad(), -rate);
  }
}

// A model wrapped in data parallelism, as by Accelerator::prepare.
template <typename Holder>
class Parallel {
 public:
  Parallel(Holder module, std::shared_ptr<DataParallel> data_parallel)
      : module_(std::move(module)), data_parallel_(std::move(data_parallel)) {}

  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    data_parallel_->before_forward();
    auto output = module_->forward(std::forward<Arguments>(arguments)...);
    if (!data_parallel_->needs_outputs()) {
      data_parallel_->after_forward();
      return output;
    }
    std::vector<at::Tensor> tensors = flatten_tensors(output);
    data_parallel_->after_forward(tensors);
    return with_tensors(output, data_parallel_->wrap_outputs(std::move(tensors)));
  }
  Holder& unwrap() { return module_; }
  DataParallel& data_parallel() { return *data_parallel_; }

 private:
  Holder module_;
  std::shared_ptr<DataParallel> data_parallel_;
};

// Common setup of a rank.
struct Rank {
  Rank()
      : topology(Topology::from_environment()),
        group(make_process_group(topology, at::kCPU,
                                 {std::chrono::minutes(30), std::chrono::seconds(60)})) {}

  template <typename Holder>
  Parallel<Holder> prepare(Holder module, const DataParallelOptions& options = {}) const {
    std::shared_ptr<DataParallel> shared = make_data_parallel(*module, group, options);
    return {std::move(module), std::move(shared)};
  }
  int rank() const { return topology.rank; }
  int world_size() const { return topology.world_size; }

  const Topology topology;
  const ProcessGroupPtr group;
};

using Arguments = std::vector<std::string>;
using Scenario = void (*)(const Arguments&);

// twins.cc: trains the cases named by the arguments; each prints what ddp_twin.py prints.
void train_twins(const Arguments& cases);

// model_scenarios.cc
void unused(const Arguments&);
void static_graph(const Arguments&);
void second_backward(const Arguments&);
void agreement(const Arguments& differences);
void join_numbers(const Arguments&);
void join_edges(const Arguments&);
void local_sgd(const Arguments&);
void timings(const Arguments&);
void alone(const Arguments&);

// batch_norm_scenarios.cc
void sync_batch_norm(const Arguments&);

// group_scenarios.cc
void side_group(const Arguments&);
void sub_groups(const Arguments&);
void leave(const Arguments& how);
void strangers(const Arguments&);
void meeting_place(const Arguments&);

// mismatch_scenarios.cc
void mismatches(const Arguments& how);
void lonely_reduce(const Arguments&);
void after_a_timeout(const Arguments& how);

}  // namespace muster
