// The short cut through shared memory; see shared_gloo.h.
#include "parallel/shared_gloo.h"

#include <ATen/record_function.h>

#include <cstring>
#include <numeric>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

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

// Gloo's work, whose waiting shows in a profile. `name` is a constant: "wait:all_reduce".
class ProfiledWork : public c10d::Work {
 public:
  ProfiledWork(int rank, const char* name, c10::intrusive_ptr<c10d::Work> work)
      : Work(rank, work->retrieveOpType()), name_(name), work_(std::move(work)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    RECORD_USER_SCOPE(name_);
    return work_->wait(timeout);
  }
  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }
  float getDuration() const override { return work_->getDuration(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return work_->getFuture(); }

 private:
  const char* const name_;
  const c10::intrusive_ptr<c10d::Work> work_;
};

// Operations as the log and a profile name them.
struct Names {
  const char* operation;
  const char* wait;
  const char* shared;
};
constexpr Names kNames[] = {{"all_reduce", "wait:all_reduce", "shared_memory:all_reduce"},
                            {"broadcast", "wait:broadcast", "shared_memory:broadcast"},
                            {"all_gather", "wait:all_gather", ""},
                            {"gather", "wait:gather", ""},
                            {"scatter", "wait:scatter", ""},
                            {"reduce", "wait:reduce", ""},
                            {"all_to_all", "wait:all_to_all", ""},
                            {"barrier", "wait:barrier", ""}};
enum Operation {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kReduce,
  kAllToAll,
  kBarrier
};

const char* dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

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

bool is_added_up(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kInt || type == at::kLong;
}

// For a type that is_added_up.
void reduce_any(SharedReduction& shared, const at::Tensor& tensor, SharedOperation operation) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return reduce<float>(shared, tensor, operation);
    case at::kDouble:
      return reduce<double>(shared, tensor, operation);
    case at::kInt:
      return reduce<int32_t>(shared, tensor, operation);
    default:
      return reduce<int64_t>(shared, tensor, operation);
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

void SharedGloo::set_name(const std::string& name, const std::vector<int>& ranks) {
  CollectiveLog& log = CollectiveLog::of_process();
  if (group_) log.remove_group(*group_);
  ranks_ = ranks;
  group_ = log.add_group(name, ranks);
  log.set_library_trace("c10d", [] { return c10d::dump_fr_trace_json(true, false); });
}

SharedGloo::~SharedGloo() {
  if (group_) CollectiveLog::of_process().remove_group(*group_);
}

uint64_t SharedGloo::note_begin(const char* operation, const std::vector<at::Tensor>& tensors,
                                const char* carrier) {
  if (!group_) {
    std::vector<int> ranks(static_cast<size_t>(getSize()));
    std::iota(ranks.begin(), ranks.end(), 0);
    set_name("group", ranks);
  }
  CollectiveLog::Call call = {.operation = operation, .carrier = carrier};
  for (const at::Tensor& tensor : tensors) {
    call.dtype = dtype_name(tensor.scalar_type());
    call.elements += tensor.numel();
    call.bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }
  return CollectiveLog::of_process().begin(*group_, call);
}

template <typename Start>
c10::intrusive_ptr<c10d::Work> SharedGloo::noted(int operation,
                                                 const std::vector<at::Tensor>& tensors,
                                                 const Start& start) {
  const uint64_t number = note_begin(kNames[operation].operation, tensors, "gloo");
  CollectiveLog& log = CollectiveLog::of_process();
  try {
    auto work = start();
    work->getFuture()->addCallback(
        [&log, number](c10::ivalue::Future& future) { log.end(number, !future.hasError()); },
        /*uses_future=*/false);
    return c10::make_intrusive<ProfiledWork>(getRank(), kNames[operation].wait, std::move(work));
  } catch (...) {
    log.end(number, false);
    throw;
  }
}

template <typename Run>
void SharedGloo::noted_here(int operation, const std::vector<at::Tensor>& tensors, const Run& run) {
  RECORD_USER_SCOPE(kNames[operation].shared);
  const uint64_t number = note_begin(kNames[operation].operation, tensors, "shared memory");
  CollectiveLog& log = CollectiveLog::of_process();
  try {
    run();
  } catch (...) {
    log.end(number, false);
    throw;
  }
  log.end(number, true);
}

c10::intrusive_ptr<c10d::Work> SharedGloo::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const auto operation = shared_operation(options.reduceOp);
  if (operation && takes(tensors) && is_added_up(tensors[0].scalar_type())) {
    noted_here(kAllReduce, tensors, [&] { reduce_any(*shared_, tensors[0], *operation); });
    return c10::make_intrusive<FinishedWork>(getRank(), c10d::OpType::ALLREDUCE, tensors);
  }
  return noted(kAllReduce, tensors, [&] { return ProcessGroupGloo::allreduce(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  if (takes(tensors) && options.rootTensor == 0) {
    noted_here(kBroadcast, tensors, [&] {
      shared_->broadcast(tensors[0].mutable_data_ptr(), tensors[0].nbytes(),
                         static_cast<int>(options.rootRank));
    });
    return c10::make_intrusive<FinishedWork>(getRank(), c10d::OpType::BROADCAST, tensors);
  }
  return noted(kBroadcast, tensors, [&] { return ProcessGroupGloo::broadcast(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& options) {
  return noted(kAllGather, inputs,
               [&] { return ProcessGroupGloo::allgather(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                                  std::vector<at::Tensor>& inputs,
                                                  const c10d::GatherOptions& options) {
  return noted(kGather, inputs, [&] { return ProcessGroupGloo::gather(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::scatter(std::vector<at::Tensor>& outputs,
                                                   std::vector<std::vector<at::Tensor>>& inputs,
                                                   const c10d::ScatterOptions& options) {
  // Only the root has inputs: what arrives is equal on all ranks.
  return noted(kScatter, outputs,
               [&] { return ProcessGroupGloo::scatter(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::reduce(std::vector<at::Tensor>& tensors,
                                                  const c10d::ReduceOptions& options) {
  return noted(kReduce, tensors, [&] { return ProcessGroupGloo::reduce(tensors, options); });
}

#if TORCH_VERSION_MINOR >= 14
#define MUSTER_ALL_TO_ALL all_to_all_single
#else
#define MUSTER_ALL_TO_ALL alltoall_base
#endif
c10::intrusive_ptr<c10d::Work> SharedGloo::MUSTER_ALL_TO_ALL(at::Tensor& output, at::Tensor& input,
                                                             std::vector<int64_t>& output_counts,
                                                             std::vector<int64_t>& input_counts,
                                                             const c10d::AllToAllOptions& options) {
  return noted(kAllToAll, {input}, [&] {
    return ProcessGroupGloo::MUSTER_ALL_TO_ALL(output, input, output_counts, input_counts, options);
  });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::barrier(const c10d::BarrierOptions& options) {
  return noted(kBarrier, {}, [&] { return ProcessGroupGloo::barrier(options); });
}

}  // namespace muster
