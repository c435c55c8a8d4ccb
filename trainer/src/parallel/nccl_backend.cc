// The only file that includes NCCL's headers; built when LibTorch has CUDA and they are found.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "parallel/process_group.h"

namespace muster {

void add_nccl_backend(const ProcessGroupPtr& group, const c10::intrusive_ptr<c10d::Store>& store,
                      const ProcessGroupOptions& options) {
  auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
  nccl_options->timeout = options.timeout;
  const auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", store), group->getRank(), group->getSize(),
      nccl_options);
  group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
}

}  // namespace muster
