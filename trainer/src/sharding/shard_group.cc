// Collectives of sharding; see shard_group.h.
#include "sharding/shard_group.h"

#include "muster/base/errors.h"
#include "parallel/ordered_bits.h"

namespace muster {
namespace {

template <typename Action>
auto translated(const char* what, int rank, Action&& action) {
  try {
    return action();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw CommunicationError("rank " + std::to_string(rank) + ": sharding's " + what +
                             " failed: " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw CommunicationError("rank " + std::to_string(rank) + ": sharding's " + what +
                             " failed: " + error.what());
  }
}

}  // namespace

void PendingCollective::wait() {
  if (!started_) return;
  started_ = false;
  translated("collective", rank_, [this] {
    for (const auto& work : works_) work->wait();
    if (finish_) finish_();
  });
  works_.clear();
  tensors_.clear();
  finish_ = nullptr;
}

ShardGroup::ShardGroup(ProcessGroupPtr group, at::Device device)
    : group_(std::move(group)),
      rank_(group_ ? group_->getRank() : 0),
      size_(group_ ? group_->getSize() : 1),
      device_(device),
      gloo_(group_ && backend()->getBackendName() == "gloo") {}

c10::intrusive_ptr<c10d::Backend> ShardGroup::backend() const {
  return group_->getBackend(device_.type());
}

PendingCollective ShardGroup::started(std::vector<at::Tensor> tensors) const {
  PendingCollective pending;
  pending.started_ = true;
  pending.rank_ = rank_;
  pending.tensors_ = std::move(tensors);
  return pending;
}

PendingCollective ShardGroup::all_gather(const at::Tensor& whole, const at::Tensor& own) {
  const int64_t chunk = own.numel();
  const at::Tensor place = whole.narrow(0, chunk * rank_, chunk);
  if (size_ == 1 || gloo_) {
    if (place.data_ptr() != own.data_ptr()) place.copy_(own);
  }
  if (size_ == 1) return {};
  PendingCollective pending = started({whole, own});
  translated("all-gather", rank_, [&] {
    at::Tensor output = whole, input = own;
    if (!gloo_) {
      pending.works_.push_back(backend()->_allgather_base(output, input));
      return;
    }
    // Each rank sends its chunk from where it is: no copy.
    for (int root = 0; root < size_; ++root) {
      std::vector<at::Tensor> chunk_of = {whole.narrow(0, chunk * root, chunk)};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      pending.works_.push_back(backend()->broadcast(chunk_of, options));
    }
  });
  return pending;
}

PendingCollective ShardGroup::reduce_scatter(const at::Tensor& own, const at::Tensor& whole,
                                             const at::Tensor& scratch) {
  if (size_ == 1) {
    own.copy_(whole);
    return {};
  }
  PendingCollective pending = started({own, whole, scratch});
  translated("reduce-scatter", rank_, [&] {
    at::Tensor input = whole, output = own;
    if (!gloo_) {
      pending.works_.push_back(backend()->_reduce_scatter_base(output, input));
      return;
    }
    at::Tensor received = scratch;
    std::vector<int64_t> equal;
    pending.works_.push_back(backend()->alltoall_base(received, input, equal, equal));
    pending.finish_ = [own, received, size = size_] {
      at::Tensor rows = received.view({size, -1});
      at::Tensor target = own;
      at::add_out(target, rows[0], rows[1]);
      for (int rank = 2; rank < size; ++rank) target.add_(rows[rank]);
    };
  });
  return pending;
}

PendingCollective ShardGroup::broadcast(const at::Tensor& tensor) {
  if (size_ == 1) return {};
  PendingCollective pending = started({tensor});
  translated("broadcast", rank_, [&] {
    std::vector<at::Tensor> tensors = {tensor};
    pending.works_.push_back(backend()->broadcast(tensors, c10d::BroadcastOptions()));
  });
  return pending;
}

PendingCollective ShardGroup::all_reduce(const at::Tensor& tensor, c10d::ReduceOp operation) {
  if (size_ == 1) return {};
  const bool is_extreme = operation == c10d::ReduceOp::MAX || operation == c10d::ReduceOp::MIN;
  const bool by_bits = is_extreme && has_ordered_bits(tensor.scalar_type());
  const at::Tensor wire = by_bits ? ordered_bits(tensor, operation == c10d::ReduceOp::MIN) : tensor;
  PendingCollective pending = started({tensor, wire});
  if (by_bits) pending.finish_ = [tensor, wire] { tensor.copy_(from_ordered_bits(wire)); };
  translated("all-reduce", rank_, [&] {
    std::vector<at::Tensor> tensors = {wire};
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    pending.works_.push_back(backend()->allreduce(tensors, options));
  });
  return pending;
}

}  // namespace muster
