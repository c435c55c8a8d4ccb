// Averages parameters; see local_sgd.h. Training thread.
#include "muster/parallel/local_sgd.h"

#include <unistd.h>

#include <exception>
#include <map>
#include <stdexcept>

#include "parallel/data_parallel_state.h"

namespace muster {

LocalSGD::LocalSGD(DataParallel& model, const LocalSGDOptions& options)
    : model_(model.shared_state()),
      options_(options),
      exceptions_(std::uncaught_exceptions()),
      synchronizing_before_(model.synchronizing()),
      process_(::getpid()) {
  if (options_.steps < 1) {
    throw std::invalid_argument("LocalSGDOptions::steps is " + std::to_string(options_.steps) +
                                ", but must be at least 1");
  }
  if (model_.state().sharded) {
    throw std::invalid_argument(
        "LocalSGD: the model is sharded, so the ranks have no complete weights to average: leave "
        "ShardingOptions::stage at none");
  }
  if (options_.enabled) model_.set_synchronizing(false);
}

LocalSGD::~LocalSGD() noexcept(false) {
  if (::getpid() != process_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    model_.set_synchronizing(synchronizing_before_);
  } else {
    finish();
  }
}

void LocalSGD::step() {
  ++steps_done_;
  if (open_ && options_.enabled && steps_done_ % options_.steps == 0) average();
}

void LocalSGD::finish() {
  if (!open_) return;
  open_ = false;
  if (!options_.enabled) return;
  model_.set_synchronizing(synchronizing_before_);
  average();
}

void LocalSGD::average() const {
  const ProcessGroupPtr& group = model_.state().group;
  if (!group) return;
  const torch::NoGradGuard no_grad;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const NamedParameter& parameter : model_.state().parameters) {
    by_type[parameter.tensor.scalar_type()].push_back(parameter.tensor);
  }
  // One reduction per dtype: the latency of many small ones would cost more than the copies.
  for (const auto& [type, parameters] : by_type) {
    std::vector<at::Tensor> flat = {at::cat([&] {
      std::vector<at::Tensor> pieces;
      for (const at::Tensor& parameter : parameters) pieces.push_back(parameter.flatten());
      return pieces;
    }())};
    group->getBackend(flat[0].device().type())->allreduce(flat)->wait();
    flat[0].div_(group->getSize());
    int64_t offset = 0;
    for (const at::Tensor& parameter : parameters) {
      parameter.copy_(flat[0].narrow(0, offset, parameter.numel()).view(parameter.sizes()));
      offset += parameter.numel();
    }
  }
}

}  // namespace muster
