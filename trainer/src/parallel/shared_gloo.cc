// The short cut through shared memory; see shared_gloo.h.
#include "parallel/shared_gloo.h"

#include <cstring>

namespace muster {
namespace {

constexpr size_t kNameBytes = 64;

// Work that was finished before it was handed out.
class FinishedWork : public c10d::Work {
 public:
  FinishedWork(int rank, c10d::OpType type, std::vector<at::Tensor> tensors)
      : Work(rank, type), tensors_(std::move(tensors)) {
    finish();
  }
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(tensors_));
    return future;
  }

 private:
  std::vector<at::Tensor> tensors_;
};

std::optional<SharedOperation> shared_operation(const c10d::ReduceOp& operation) {
  if (operation == c10d::ReduceOp::SUM) return SharedOperation::sum;
  if (operation == c10d::ReduceOp::MAX) return SharedOperation::max;
  if (operation == c10d::ReduceOp::MIN) return SharedOperation::min;
  return std::nullopt;
}

template <typename T>
void reduce(SharedReduction& shared, const at::Tensor& tensor, SharedOperation operation) {
  shared.all_reduce(tensor.mutable_data_ptr<T>(), static_cast<size_t>(tensor.numel()), operation);
}

// False for a type that the shared memory does not add up.
bool reduce_any(SharedReduction& shared, const at::Tensor& tensor, SharedOperation operation) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      reduce<float>(shared, tensor, operation);
      return true;
    case at::kDouble:
      reduce<double>(shared, tensor, operation);
      return true;
    case at::kInt:
      reduce<int32_t>(shared, tensor, operation);
      return true;
    case at::kLong:
      reduce<int64_t>(shared, tensor, operation);
      return true;
    default:
      return false;
  }
}

}  // namespace

bool SharedGloo::all_ranks(bool own) {
  std::vector<at::Tensor> flag = {at::full({1}, own ? 1 : 0, at::kInt)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  ProcessGroupGloo::allreduce(flag, options)->wait();
  return flag[0].item<int>() == 1;
}

void SharedGloo::share_memory() {
  const SharedReduction::Patience patience = {getOptions()->timeout,
                                              [this] { return any_is_broken(connections_); }};
  std::unique_ptr<SharedReduction> shared;
  std::vector<at::Tensor> name = {at::zeros({kNameBytes}, at::kByte)};
  if (getRank() == 0) {
    shared = SharedReduction::create(getSize(), patience);
    const std::string text = shared ? shared->name() : "";
    if (text.size() < kNameBytes) {
      std::memcpy(name[0].mutable_data_ptr(), text.data(), text.size());
    }
  }
  ProcessGroupGloo::broadcast(name)->wait();
  if (getRank() != 0) {
    shared = SharedReduction::open(static_cast<const char*>(name[0].const_data_ptr()), getRank(),
                                   getSize(), patience);
  }
  const bool everywhere = all_ranks(shared != nullptr);
  if (shared) shared->unlink();
  if (everywhere) shared_ = std::move(shared);
}

bool SharedGloo::takes(const std::vector<at::Tensor>& tensors) const {
  if (!shared_ || tensors.size() != 1) return false;
  const at::Tensor& tensor = tensors[0];
  // Ranks agree on these: collectives ask for tensors of equal type and size.
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         tensor.nbytes() <= kBytesMax;
}

c10::intrusive_ptr<c10d::Work> SharedGloo::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const auto operation = shared_operation(options.reduceOp);
  if (operation && takes(tensors) && reduce_any(*shared_, tensors[0], *operation)) {
    return c10::make_intrusive<FinishedWork>(getRank(), c10d::OpType::ALLREDUCE, tensors);
  }
  return ProcessGroupGloo::allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> SharedGloo::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  if (takes(tensors) && options.rootTensor == 0) {
    shared_->broadcast(tensors[0].mutable_data_ptr(), tensors[0].nbytes(),
                       static_cast<int>(options.rootRank));
    return c10::make_intrusive<FinishedWork>(getRank(), c10d::OpType::BROADCAST, tensors);
  }
  return ProcessGroupGloo::broadcast(tensors, options);
}

}  // namespace muster
