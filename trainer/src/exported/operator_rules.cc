#include "exported/operator_rules.h"

#include <algorithm>
#include <array>

namespace muster {
namespace {

struct Refused {
  std::string_view name;
  std::string_view reason;
};

constexpr std::string_view kMemory = "it takes over memory or changes what a tensor is";
constexpr std::string_view kState = "it changes a tensor's place in autograd";
constexpr std::string_view kDevice = "it changes the state of a device";

// Of torch 2.13: those without a leading underscore that do more than compute tensors.
constexpr std::array kRefused = std::to_array<Refused>({
    {"data", kState},
    {"from_file", "it reads and writes files"},
    {"is_pinned", kDevice},
    {"pin_memory", kDevice},
    {"record_stream", kDevice},
    {"rename", kMemory},
    {"rename_", kMemory},
    {"requires_grad_", kState},
    {"resize", kMemory},
    {"resize_", kMemory},
    {"resize_as", kMemory},
    {"resize_as_", kMemory},
    {"resize_as_sparse", kMemory},
    {"resize_as_sparse_", kMemory},
    {"retain_grad", kState},
    {"retains_grad", kState},
    {"segment_reduce", "it may trust the lengths that it is given"},
    {"set", kMemory},
    {"set_", kMemory},
    {"set_data", kState},
});

// Operators of one library, whose arguments may be memory in its own format.
constexpr std::string_view kLibraries[] = {"cudnn_",  "fbgemm_",    "miopen_",
                                           "mkldnn_", "quantized_", "to_mkldnn"};

// Names with a leading underscore are ATen's own and check little. These are in exported graphs, and check.
constexpr std::array kAllowedInner = std::to_array<std::string_view>({
    "__and__",
    "__iand__",
    "__ilshift__",
    "__ior__",
    "__irshift__",
    "__ixor__",
    "__lshift__",
    "__or__",
    "__rshift__",
    "__xor__",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "_addmm_activation",
    "_aminmax",
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "_cdist_forward",
    "_conj",
    "_conj_physical",
    "_convolution",
    "_convolution_mode",
    "_ctc_loss",
    "_embedding_bag",
    "_euclidean_dist",
    "_grouped_mm",
    "_is_all_true",
    "_is_any_true",
    "_linalg_det",
    "_linalg_eigh",
    "_linalg_slogdet",
    "_linalg_solve_ex",
    "_linalg_svd",
    "_local_scalar_dense",
    "_log_softmax",
    "_logcumsumexp",
    "_masked_softmax",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_neg_view",
    "_pad_circular",
    "_pad_enum",
    "_pdist_forward",
    "_prelu_kernel",
    "_reshape_copy",
    "_safe_softmax",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_shape_as_tensor",
    "_softmax",
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
    "_to_copy",
    "_trilinear",
    "_unique",
    "_unique2",
    "_unsafe_index",
    "_unsafe_index_put",
    "_unsafe_view",
    "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "_weight_norm",
    "_weight_norm_interface",
});

constexpr std::array kModeOperators = std::to_array<ModeOperator>({
    {"alpha_dropout", "train", "p"},
    {"alpha_dropout_", "train", "p"},
    {"batch_norm", "training", {}, "running_mean"},
    {"dropout", "train", "p"},
    {"dropout_", "train", "p"},
    {"feature_alpha_dropout", "train", "p"},
    {"feature_alpha_dropout_", "train", "p"},
    {"feature_dropout", "train", "p"},
    {"feature_dropout_", "train", "p"},
    {"gru", "train", "dropout"},
    {"instance_norm", "use_input_stats", {}, "running_mean"},
    {"lstm", "train", "dropout"},
    {"native_dropout", "train", "p"},
    {"rnn_relu", "train", "dropout"},
    {"rnn_tanh", "train", "dropout"},
    {"rrelu", "training"},
    {"rrelu_", "training"},
    {"_scaled_dot_product_attention_math", {}, "dropout_p"},
    {"_scaled_dot_product_cudnn_attention", {}, "dropout_p"},
    {"_scaled_dot_product_efficient_attention", {}, "dropout_p"},
    {"_scaled_dot_product_flash_attention", {}, "dropout_p"},
    {"_scaled_dot_product_flash_attention_for_cpu", {}, "dropout_p"},
    {"scaled_dot_product_attention", {}, "dropout_p"},
});

// And what decompositions make of the operators above.
constexpr std::array kRandom = std::to_array<std::string_view>({
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "bernoulli",
    "bernoulli_",
    "binomial",
    "cauchy",
    "cauchy_",
    "exponential",
    "exponential_",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "geometric",
    "geometric_",
    "log_normal",
    "log_normal_",
    "multinomial",
    "native_batch_norm",
    "normal",
    "normal_",
    "normal_functional",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "random_",
    "randperm",
    "rrelu_with_noise",
    "rrelu_with_noise_",
    "rrelu_with_noise_functional",
    "uniform",
    "uniform_",
});

}  // namespace

std::string_view refusal_of(std::string_view name) {
  const auto found = std::lower_bound(
      kRefused.begin(), kRefused.end(), name,
      [](const Refused& refused, std::string_view wanted) { return refused.name < wanted; });
  if (found != kRefused.end() && found->name == name) return found->reason;
  for (const std::string_view library : kLibraries) {
    if (name.starts_with(library)) return "it takes memory that is packed for one library";
  }
  if (name.starts_with("sparse_") || name.starts_with("to_sparse"))
    return "only strided tensors are made";
  if (name.find("_backward") != std::string_view::npos)
    return "gradients are computed by autograd, not by the graph";
  if (name.starts_with('_') &&
      !std::binary_search(kAllowedInner.begin(), kAllowedInner.end(), name))
    return "it is one of ATen's own, which check little";
  return {};
}

const ModeOperator* find_mode_operator(std::string_view name) {
  const auto found = std::find_if(kModeOperators.begin(), kModeOperators.end(),
                                  [&](const ModeOperator& each) { return each.name == name; });
  return found == kModeOperators.end() ? nullptr : &*found;
}

bool is_random(std::string_view name) {
  return std::binary_search(kRandom.begin(), kRandom.end(), name);
}

}  // namespace muster
