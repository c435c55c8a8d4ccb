// The Accelerator's collectives; see muster/accelerator/accelerator.h.
#include <unistd.h>

#include <cstdio>

#include "accelerator/state.h"

namespace muster {

void Accelerator::wait_for_everyone() { state_->collectives->wait(); }

std::vector<at::Tensor> Accelerator::gather_tensors(const std::vector<at::Tensor>& tensors) {
  return state_->collectives->gather(tensors);
}

// Source: accelerate/accelerator.py, gather_for_metrics.
std::vector<at::Tensor> Accelerator::gather_metric_tensors(const std::vector<at::Tensor>& tensors) {
  const auto loader = state_->gradients->ending_loader();
  const int64_t real = loader ? loader->remainder() : -1;
  // The last batches of uneven loaders differ in size.
  std::vector<at::Tensor> gathered = loader && !state_->options.dataloader_config.even_batches
                                         ? state_->collectives->gather_ragged(tensors)
                                         : state_->collectives->gather(tensors);
  if (real <= 0) return gathered;
  for (at::Tensor& tensor : gathered) {
    if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) > real) {
      tensor = tensor.slice(0, 0, real);
    }
  }
  return gathered;
}

std::vector<double> Accelerator::gather(double value) {
  const at::Tensor values = gather(torch::tensor(value, at::kDouble));
  return std::vector<double>(values.const_data_ptr<double>(),
                             values.const_data_ptr<double>() + values.numel());
}

std::vector<at::Tensor> Accelerator::reduce_tensors(const std::vector<at::Tensor>& tensors,
                                                    Reduction reduction, double scale) {
  return state_->collectives->reduce(tensors, reduction, scale);
}

double Accelerator::reduce(double value, Reduction reduction) {
  return reduce(torch::tensor({value}, at::kDouble), reduction).item<double>();
}

std::vector<at::Tensor> Accelerator::pad_tensors(const std::vector<at::Tensor>& tensors,
                                                 int64_t dim, double pad_index, bool pad_first) {
  return state_->collectives->pad_across_processes(tensors, dim, pad_index, pad_first);
}

std::vector<at::Tensor> Accelerator::broadcast_tensors(const std::vector<at::Tensor>& tensors,
                                                       int from) {
  return state_->collectives->broadcast(tensors, from);
}

std::vector<std::string> Accelerator::gather_object(const std::string& object) {
  return state_->collectives->gather_object(object);
}

std::vector<std::string> Accelerator::broadcast_object_list(std::vector<std::string> objects,
                                                            int from_process) {
  return state_->collectives->broadcast_object_list(objects, from_process);
}

void Accelerator::set_trigger() { state_->trigger = true; }

bool Accelerator::check_trigger() {
  const bool any = state_->collectives->any_rank(state_->trigger);
  if (any) state_->trigger = false;
  return any;
}

Accelerator::FirstScope::FirstScope(Accelerator& accelerator, bool first)
    : collectives_(accelerator.state_->collectives), first_(first), process_(::getpid()) {
  if (!first_) collectives_->wait();
}

Accelerator::FirstScope::~FirstScope() {
  if (!first_ || ::getpid() != process_) return;
  try {
    collectives_->wait();
  } catch (const std::exception& error) {
    // This rank's next collective reports it again.
    std::fprintf(stderr, "muster: rank %d: %s\n", collectives_->rank(), error.what());
  }
}

}  // namespace muster
