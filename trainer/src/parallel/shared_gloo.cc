// The shared-memory fast path; see shared_gloo.h.
#include "parallel/shared_gloo.h"

#include <ATen/record_function.h>

#include <cstring>
#include <numeric>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include "muster/base/errors.h"
#include "parallel/call_name.h"
#include "parallel/communication_time.h"
#include "parallel/gloo_work.h"

namespace muster {
namespace {

constexpr size_t kNameBytes = 64;

// Names of operations in the log and in profiles.
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

std::string operation_name(const c10d::ReduceOp& operation) {
  switch (operation.op_) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::MIN:
      return "min";
    default:
      return "operation " + std::to_string(static_cast<int>(operation.op_));
  }
}

std::string from(int64_t rank) { return "from " + std::to_string(rank); }
std::string to(int64_t rank) { return "to " + std::to_string(rank); }

template <typename T>
void reduce(SharedReduction& shared, const at::Tensor& tensor, SharedOperation operation) {
  shared.all_reduce(tensor.mutable_data_ptr<T>(), static_cast<size_t>(tensor.numel()), operation);
}

bool is_added_up(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kInt || type == at::kLong;
}

// For dtypes for which is_added_up is true.
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

// Created by rank 0; available on all ranks or on none.
std::unique_ptr<SharedMemory> SharedGloo::common_memory(size_t bytes) {
  std::unique_ptr<SharedMemory> memory;
  std::vector<at::Tensor> name = {at::zeros({kNameBytes}, at::kByte)};
  if (getRank() == 0) {
    memory = SharedMemory::create(bytes);
    const std::string text = memory ? memory->name() : "";
    if (text.size() < kNameBytes) {
      std::memcpy(name[0].mutable_data_ptr(), text.data(), text.size());
    }
  }
  ProcessGroupGloo::broadcast(name)->wait();
  if (getRank() != 0) {
    memory = SharedMemory::open(static_cast<const char*>(name[0].const_data_ptr()), bytes);
  }
  const bool everywhere = all_ranks(memory != nullptr);
  if (memory) memory->unlink();
  return everywhere ? std::move(memory) : nullptr;
}

void SharedGloo::share_memory(bool reduces) {
  const int size = getSize();
  if (size > SharedCalls::kRanksMax) return;
  auto calls = common_memory(SharedCalls::memory_bytes(size));
  if (calls == nullptr) return;
  health_->set_calls(std::make_unique<SharedCalls>(std::move(calls), getRank(), size));
  if (!reduces || size > SharedReduction::kRanksMax) return;
  auto slots = common_memory(SharedReduction::memory_bytes(size));
  if (slots == nullptr) return;
  const SharedReduction::Patience patience = {
      getOptions()->timeout, [health = health_.get()] { return health->trouble(); }};
  shared_ = std::make_unique<SharedReduction>(std::move(slots), getRank(), size, patience);
}

bool SharedGloo::takes(const std::vector<at::Tensor>& tensors) const {
  if (!shared_ || tensors.size() != 1) return false;
  const at::Tensor& tensor = tensors[0];
  // The same on all ranks: begin() has compared dtype and size.
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         tensor.nbytes() <= kBytesMax;
}

void SharedGloo::set_name(const std::string& name, const std::vector<int>& ranks) {
  CollectiveLog& log = CollectiveLog::of_process();
  if (group_) log.remove_group(*group_);
  name_ = name;
  ranks_ = ranks;
  group_ = log.add_group(name, ranks);
  log.set_library_trace("c10d", [] { return c10d::dump_fr_trace_json(true, false); });
}

SharedGloo::~SharedGloo() {
  if (group_) CollectiveLog::of_process().remove_group(*group_);
}

namespace {

// "all_reduce sum of 64 int64".
std::string call_text(const CollectiveLog::Call& call, const std::string& how, bool equal_sizes) {
  std::string text = call.operation;
  if (!how.empty()) text += " " + how;
  if (*call.dtype == '\0') return text;
  if (equal_sizes) text += " of " + std::to_string(call.elements);
  return text + " " + call.dtype;
}

// FNV-1a, 32 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
uint32_t hash_of(const std::string& text) {
  uint32_t hash = 0x811c9dc5;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  return hash;
}

// The tag of Gloo's messages, so that those of different calls never match. The low bits are a
// counter, so that concurrent calls differ and several connections are used in turn.
uint32_t tag_of(uint32_t number, const std::string& call) {
  constexpr uint32_t kCounted = 0xfff;
  return (hash_of(call) & ~kCounted) | (number & kCounted);
}

}  // namespace

void SharedGloo::throw_difference(const std::vector<std::string>& calls) {
  std::string text = "the ranks call different collectives as number " +
                     std::to_string(health_->calls()->number()) + " of the group '" + name_ + "':";
  for (size_t i = 0; i < calls.size(); ++i) {
    text += "\n  rank " + std::to_string(ranks_[i]) + ": " +
            (calls[i].empty() ? "has not arrived" : calls[i]);
  }
  text +=
      "\nall ranks must make the same calls in the same order with the same dtypes and sizes: look "
      "for a call that only some of them make, such as one inside if (is_main_process()), "
      "after "
      "an early continue, or in a loop whose length differs";
  throw CommunicationError(health_->fail(text));
}

uint64_t SharedGloo::begin(const Call& call, const std::vector<at::Tensor>& tensors,
                           const char* carrier) {
  if (!group_) {
    std::vector<int> ranks(static_cast<size_t>(getSize()));
    std::iota(ranks.begin(), ranks.end(), 0);
    set_name("group", ranks);
  }
  CollectiveLog::Call noted = {.operation = kNames[call.operation].operation, .carrier = carrier};
  for (const at::Tensor& tensor : tensors) {
    noted.dtype = dtype_name(tensor.scalar_type());
    noted.elements += tensor.numel();
    noted.bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }
  std::string text = call_text(noted, call.how, call.equal_sizes);
  if (!CallSubject::current().empty()) text.append(" of ").append(CallSubject::current());
  if (const std::string failure = health_->failure(); !failure.empty()) {
    health_->fail(failure);  // so that no rank keeps waiting for this one
    throw CommunicationError(text + " rejected: the group '" + name_ +
                             "' has failed, and its ranks may be at different calls: end this "
                             "attempt and resume from a checkpoint. The failure: " +
                             failure);
  }
  if (SharedCalls* calls = health_->calls()) {
    const std::vector<std::string> different = calls->announce(text, CallName::current());
    if (!different.empty()) throw_difference(different);
  }
  collectiveCounter_ = tag_of(++calls_, text);
  last_call_ = "rank " + std::to_string(ranks_[getRank()]) + ", " + text;
  return CollectiveLog::of_process().begin(*group_, noted);
}

template <typename Start>
c10::intrusive_ptr<c10d::Work> SharedGloo::noted(const Call& call,
                                                 const std::vector<at::Tensor>& tensors,
                                                 const Start& start) {
  const uint64_t number = begin(call, tensors, "gloo");
  CollectiveLog& log = CollectiveLog::of_process();
  try {
    auto work = start();
    work->getFuture()->addCallback(
        [&log, number, health = health_, text = last_call_,
         running = CommunicationTime::of_thread().start()](c10::ivalue::Future& future) {
          running->end();
          log.end(number, !future.hasError());
          // Report it even if this rank does not wait: the other ranks do.
          if (future.hasError() && !is_refusal(future.exception_ptr())) {
            health->fail(text + ": " + future.tryRetrieveErrorMessage());
          }
        },
        /*uses_future=*/false);
    return c10::make_intrusive<ProfiledWork>(getRank(), kNames[call.operation].wait, last_call_,
                                             health_, std::move(work));
  } catch (...) {
    log.end(number, false);
    throw;
  }
}

template <typename Run>
void SharedGloo::noted_here(const Call& call, const std::vector<at::Tensor>& tensors,
                            const Run& run) {
  RECORD_USER_SCOPE(kNames[call.operation].shared);
  const uint64_t number = begin(call, tensors, "shared memory");
  CollectiveLog& log = CollectiveLog::of_process();
  const CommunicationTime::Wait wait;
  try {
    run();
  } catch (const std::exception&) {
    log.end(number, false);
    rethrow(*health_, last_call_, std::current_exception());
  }
  log.end(number, true);
}

c10::intrusive_ptr<c10d::Work> SharedGloo::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const auto operation = shared_operation(options.reduceOp);
  const Call call{kAllReduce, operation_name(options.reduceOp)};
  if (operation && takes(tensors) && is_added_up(tensors[0].scalar_type())) {
    noted_here(call, tensors, [&] { reduce_any(*shared_, tensors[0], *operation); });
    return c10::make_intrusive<FinishedWork>(getRank(), c10d::OpType::ALLREDUCE, tensors);
  }
  return noted(call, tensors, [&] { return ProcessGroupGloo::allreduce(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  const Call call{kBroadcast, from(options.rootRank)};
  if (takes(tensors) && options.rootTensor == 0) {
    noted_here(call, tensors, [&] {
      shared_->broadcast(tensors[0].mutable_data_ptr(), tensors[0].nbytes(),
                         static_cast<int>(options.rootRank));
    });
    return c10::make_intrusive<FinishedWork>(getRank(), c10d::OpType::BROADCAST, tensors);
  }
  return noted(call, tensors, [&] { return ProcessGroupGloo::broadcast(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& options) {
  return noted({kAllGather}, inputs,
               [&] { return ProcessGroupGloo::allgather(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                                  std::vector<at::Tensor>& inputs,
                                                  const c10d::GatherOptions& options) {
  return noted({kGather, to(options.rootRank)}, inputs,
               [&] { return ProcessGroupGloo::gather(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::scatter(std::vector<at::Tensor>& outputs,
                                                   std::vector<std::vector<at::Tensor>>& inputs,
                                                   const c10d::ScatterOptions& options) {
  // Only the root has inputs; the outputs have the same size on all ranks.
  return noted({kScatter, from(options.rootRank)}, outputs,
               [&] { return ProcessGroupGloo::scatter(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::reduce(std::vector<at::Tensor>& tensors,
                                                  const c10d::ReduceOptions& options) {
  return noted({kReduce, operation_name(options.reduceOp) + " " + to(options.rootRank)}, tensors,
               [&] { return ProcessGroupGloo::reduce(tensors, options); });
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
  return noted({kAllToAll, "", input_counts.empty()}, {input}, [&] {
    return ProcessGroupGloo::MUSTER_ALL_TO_ALL(output, input, output_counts, input_counts, options);
  });
}

c10::intrusive_ptr<c10d::Work> SharedGloo::barrier(const c10d::BarrierOptions& options) {
  return noted({kBarrier}, {}, [&] { return ProcessGroupGloo::barrier(options); });
}

}  // namespace muster
