// Creates torch's Reducer for a model, for each LibTorch release, with gradient compression.
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>

#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

using NamesByIndex = std::unordered_map<size_t, std::string>;

// Like torch's FP16CompressCommHook, but for bfloat16; the arithmetic is that of bf16_compress_hook
// in Python's default_hooks.py.
class Bf16CompressHook : public c10d::CppCommHookInterface<ProcessGroupPtr> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor gradients = bucket.getBuffer();
    std::vector<at::Tensor> compressed = {gradients.to(at::kBFloat16)};
    // Divide before the sum, which could overflow in 16 bits.
    compressed[0].div_(state_->getSize());
    const auto reduced = state_->allreduce(compressed)->getFuture();
    return reduced->then(
        [gradients](c10::ivalue::Future& done) {
          gradients.copy_(done.value().toTensorVector()[0]);
          return c10::IValue(gradients);
        },
        c10::TensorType::get());
  }
};

// Whether this release's Reducer accepts these arguments after those common to all releases.
template <typename Reducer, typename... More>
constexpr bool kTakes = std::is_constructible_v<Reducer, std::vector<at::Tensor>, Buckets,
                                                ProcessGroupPtr, std::vector<bool>, int64_t, bool,
                                                bool, NamesByIndex, int64_t, bool, bool, More...>;

// A template, so that constructors that a release lacks are never compiled.
template <typename Reducer>
std::shared_ptr<Reducer> construct(const DataParallel::State& state, const Buckets& buckets,
                                   const NamesByIndex& names) {
  using BucketCaps = std::vector<int64_t>;
  const DataParallelOptions& options = state.options;
  const auto make = [&](auto... more) {
    return std::make_shared<Reducer>(
        state.tensors(), buckets, state.group, state.sparse, options.bucket_cap_mb << 20,
        options.find_unused_parameters, options.gradient_as_bucket_view, names,
        first_bucket_bytes(options), options.skip_all_reduce_unused_params,
        /*use_python_reducer=*/false, std::move(more)...);
  };
  if constexpr (kTakes<Reducer, BucketCaps, bool>) {
    return make(BucketCaps(), options.batched_grad_copy);
  } else if constexpr (kTakes<Reducer, BucketCaps>) {
    return make(BucketCaps());
  } else {
    return make();
  }
}

}  // namespace

int64_t first_bucket_bytes(const DataParallelOptions& options) {
  if (options.first_bucket_cap_mb) return *options.first_bucket_cap_mb << 20;
  // Accelerate passes bucket_cap_mb on only if it differs from 25; Python's DistributedDataParallel
  // then makes the first bucket as large as the others.
  return options.bucket_cap_mb == 25 ? c10d::kDefaultFirstBucketBytes : options.bucket_cap_mb << 20;
}

std::shared_ptr<BoundedReducer> make_reducer(const DataParallel::State& state,
                                             const Buckets& buckets) {
  NamesByIndex names;
  for (size_t i = 0; i < state.parameters.size(); ++i) names[i] = state.parameters[i].name;
  auto reducer = construct<BoundedReducer>(state, buckets, names);
  switch (state.options.gradient_compression) {
    case GradientCompression::none:
      break;
    case GradientCompression::fp16:
      reducer->register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
      break;
    case GradientCompression::bf16:
      reducer->register_comm_hook(std::make_unique<Bf16CompressHook>(state.group));
      break;
  }
  if (state.options.static_graph) reducer->set_static_graph();
  return reducer;
}

}  // namespace muster
