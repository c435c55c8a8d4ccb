// Estimates how much memory a rank needs for a model before anything is launched. Plain arithmetic:
// no LibTorch, any thread.
//
//   MemoryPlan plan{.units = {{"layers.0", 7'087'872}, …}, .stage = ZeroStage::zero3,
//                   .world_size = 8};
//   std::puts(estimate_memory(plan).text().c_str());
//
// Counts what training holds per parameter. Not counted: activations (they grow with the batch),
// the data, and the process itself (about 130 MB on a CPU, about 0.5 GB on a GPU).
//
// Formulas, in bytes per rank. Unit u has n_u parameters, t_u of them trainable. S is the number of
// ranks that shard one copy, and c_u = ceil(n_u / S): each unit is padded to S equal chunks, S *
// c_u elements, and a rank owns one chunk. P and T are the sums of n_u and t_u; C is the sum of
// c_u, C_t the sum of c_u over trainable units, O the sum of min(c_u, t_u). Bytes per element: b_p
// parameter_bytes, b_m master_bytes, b_g gradient_bytes, b_r reduce_bytes, b_o optimizer_bytes, b_a
// autocast_bytes.
//
//               none     zero1               zero2     zero3
//   parameters  b_m P    b_p S C [+ b_m C]   as zero1  b_m C
//   gradients   b_g T    b_g T [+ b_m C_t]   b_m C_t   b_m C_t
//   optimizer   b_o T    b_o O               b_o O     b_o O
//   gathered    b_a P    b_a P               b_a P     (b_p + b_a) S (c_root + two largest)
//
// [..]: only if the dtypes differ. The owner of a chunk then keeps a float32 master next to the
// parameters used for compute. Autocast copies each parameter in use at most once.
//
// gathered with zero3: the root unit stays unsharded, one unit is in use, and the next is being
// gathered (unless prefetch is off); with reshard_after_forward = false all units, S C.
//
// communication: none and zero1 reduce gradients in place (b_r T without bucket views). zero2 and
// zero3 peak either while the largest unit is being reduce-scattered and the root waits, b_g
// (t_root + t_u) + b_r (S c_u + c_u), or while the root itself is, b_g t_root + b_r (S c_root +
// c_root); plus b_r S c if reduce-scatter is emulated with all-to-all (Gloo). Micro-batches without
// communication (no_sync) accumulate unsharded gradients of all units, b_g T, in addition to the
// buffers; reducing every micro-batch avoids that.
//
// Source: Rajbhandari et al., ZeRO (arXiv 1910.02054), section 3.1 (16 bytes per parameter: 2 + 2 +
// K, K = 12 for mixed-precision Adam) and section 5 (what each stage shards); Zhao et al., PyTorch
// FSDP (arXiv 2304.11277), section 3.2 (flat parameters, padding to the world size, peak of
// unsharded parameters).
//
// The estimate ignores alignment: the sharding engine starts parameters and chunks at multiples of
// 16 elements, so that the optimizers' vectorized loops treat each element as in the unsharded
// parameter. That adds at most 15 elements per parameter, and 15 per rank and unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/sharding/zero_stage.h"

namespace muster {

// Parameters that are gathered together; sizes in elements.
struct MemoryUnit {
  std::string name;
  int64_t trainable = 0;
  int64_t frozen = 0;          // without gradients
  int64_t largest_tensor = 0;  // 0: unknown; the size of the whole unit is used
};

struct MemoryPlan {
  // Parameters outside all units (embeddings, head); zero3 keeps them unsharded during a step.
  MemoryUnit root = {};
  std::vector<MemoryUnit> units = {};
  ZeroStage stage = ZeroStage::none;
  int world_size = 1;
  // Ranks that shard one copy; 0: all. Fewer than world_size: hybrid sharding. Must divide
  // world_size.
  int shard_group_size = 0;
  // Bytes per element: 8, 4, 2 or 1.
  int parameter_bytes = 4;  // parameters used for compute, if separate from the master: 2 for bf16
  int master_bytes = 4;     // parameters that the optimizer updates
  int gradient_bytes = 4;   // gradients in backward: same as parameter_bytes
  int reduce_bytes = 4;     // dtype in which gradients are averaged
  int autocast_bytes = 0;   // 2 if autocast computes in bf16 or fp16 with float32 parameters
  int optimizer_bytes = 8;  // see optimizer_state_bytes
  // zero3.
  bool reshard_after_forward = true;
  bool prefetch = true;
  // Gradient accumulation with unsharded gradients between reductions (no_sync).
  bool accumulates_whole_gradients = false;
  bool gradient_as_bucket_view = true;   // none and zero1
  bool emulated_reduce_scatter = false;  // Gloo
};

// Bytes on the rank that holds the most.
struct MemoryEstimate {
  ZeroStage stage = ZeroStage::none;
  int world_size = 1;
  int shards = 1;  // ranks that shard one copy
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t gathered = 0;       // at its peak
  int64_t communication = 0;  // at its peak
  // One unsharded tensor in the master's dtype, in CPU memory: what initialization and save_model
  // hold in addition, one at a time and never during a step. Not part of total().
  int64_t whole_tensor = 0;

  int64_t total() const {
    return parameters + gradients + optimizer_state + gathered + communication;
  }
  // For people: a table of at most 80 columns; each line ends with '\n'.
  std::string text() const;
};

// Throws std::invalid_argument naming the field: negative counts, bytes outside 1 to 16 (0 to 64
// for the optimizer, 0 to 16 for autocast), a world size that is below 1 or not a multiple of
// shard_group_size.
MemoryEstimate estimate_memory(const MemoryPlan& plan);

// Bytes of float32 optimizer state per trainable parameter: "adam", "adamw" 8 (two moments),
// "amsgrad" 12, "sgd" 0, "sgd_momentum", "adagrad", "rmsprop" 4. Throws std::invalid_argument for
// other names.
int optimizer_state_bytes(std::string_view optimizer);

// The smallest number of ranks at which a stage fits.
struct MemoryFit {
  ZeroStage stage = ZeroStage::none;
  int world_size = 0;            // 0: does not fit at any size tried
  MemoryEstimate estimate = {};  // at that size, or at the largest one tried
};

// For each of the four stages, with the plan otherwise unchanged: the smallest world size up to
// `most_ranks` at which a rank needs at most `bytes`. With a shard group, only multiples of its
// size are tried. Throws std::invalid_argument as estimate_memory does, and if most_ranks is below
// the first size.
std::vector<MemoryFit> fits(const MemoryPlan& plan, int64_t bytes, int most_ranks);

// The result of fits() as a table of at most 80 columns.
std::string fits_text(const std::vector<MemoryFit>& found, int64_t bytes);

// For `jobctl plan --memory-estimate`, which runs the program with MUSTER_ESTIMATE=1: prints the estimate's
// total, as one JSON line on standard output, and returns true; the program then exits. Without that
// variable, prints nothing and returns false. Throws as estimate_memory does.
//
//   if (muster::offer_estimate(plan)) return 0;
bool offer_estimate(const MemoryPlan& plan);

}  // namespace muster
