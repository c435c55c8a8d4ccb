// How much memory a rank needs for a model, before anything is started. Plain arithmetic: no
// LibTorch, any thread.
//
//   MemoryPlan plan{.units = {{"layers.0", 7'087'872}, …}, .stage = ZeroStage::zero3,
//                   .world_size = 8};
//   std::puts(estimate_memory(plan).text().c_str());
//
// Counted is what training holds because of the parameters. Not counted: activations (they grow
// with the batch), the data, and the process itself (some 130 MB on a CPU, some 0.5 GB on a GPU).
//
// Formulas, in bytes per rank. For unit u with n_u parameters, t_u of them trained, S the ranks
// that share a copy, and c_u = ceil(n_u / S): each unit is padded to S equal chunks, S * c_u
// elements, and a rank owns one. P, T are the sums of n_u, t_u; C that of c_u; C_t that of c_u over
// the units that train, O that of min(c_u, t_u). Bytes of an element: b_p parameter_bytes, b_m
// master_bytes, b_g gradient_bytes, b_r reduce_bytes, b_o optimizer_bytes, b_a autocast_bytes.
//
//               none     zero1               zero2     zero3
//   parameters  b_m P    b_p S C [+ b_m C]   as zero1  b_m C
//   gradients   b_g T    b_g T [+ b_m C_t]   b_m C_t   b_m C_t
//   optimizer   b_o T    b_o O               b_o O     b_o O
//   gathered    b_a P    b_a P               b_a P     (b_p + b_a) S (c_root + two largest)
//
// [..]: only where the dtypes differ. The owner of a chunk then keeps float32 beside what is
// computed with. Autocast copies each parameter in use at most once.
//
// gathered of zero3: the root unit stays, one unit is in use, the next is on its way (none without
// prefetch); with reshard_after_forward = false all of them, S C.
//
// communication: none and zero1 reduce gradients where they lie (b_r T without bucket views). zero2
// and zero3 hold most either when the largest unit is on its way to its owners while the root
// waits, b_g (t_root + t_u) + b_r (S c_u + c_u), or when the root itself is, b_g t_root + b_r (S
// c_root + c_root); and b_r S c more where reduce-scatter is put together from all-to-all (Gloo).
// Micro-batches that send nothing (no_sync) add up whole gradients of all units, b_g T, beside the
// buffers; to reduce every micro-batch avoids that.
//
// Source: Rajbhandari et al., ZeRO (arXiv 1910.02054), section 3.1 (16 bytes per parameter: 2 + 2 +
// K, K = 12 for mixed-precision Adam) and section 5 (what the stages shard); Zhao et al., PyTorch
// FSDP (arXiv 2304.11277), section 3.2 (flat parameters, padding to the world size, the peak of
// what is gathered).
//
// The sharding engine lets parameters and chunks begin at multiples of 16 elements (the optimizers'
// vector loops then treat each element as in the whole parameter), which the figures leave out: at
// most 15 elements for each parameter, and 15 for each rank and unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/sharding/zero_stage.h"

namespace muster {

// Parameters that are gathered together, in elements.
struct MemoryUnit {
  std::string name;
  int64_t trainable = 0;
  int64_t frozen = 0;          // without gradients
  int64_t largest_tensor = 0;  // 0: not known, the whole unit counts
};

struct MemoryPlan {
  // What belongs to no unit (embeddings, head); zero3 keeps it gathered during a step.
  MemoryUnit root = {};
  std::vector<MemoryUnit> units = {};
  ZeroStage stage = ZeroStage::none;
  int world_size = 1;
  // Ranks that share a copy; 0: all. Less than the world: hybrid sharding. Must divide the world.
  int shard_group_size = 0;
  // Bytes of an element: 8, 4, 2 or 1 …
  int parameter_bytes = 4;  // what is computed with, where it is apart from the master: 2 for bf16
  int master_bytes = 4;     // what the optimizer steps on
  int gradient_bytes = 4;   // of a parameter's gradient in backward: as parameter_bytes
  int reduce_bytes = 4;     // what gradients are averaged in
  int autocast_bytes = 0;   // 2 when autocast computes in bf16 or fp16 with float32 parameters
  int optimizer_bytes = 8;  // see optimizer_state_bytes
  // zero3.
  bool reshard_after_forward = true;
  bool prefetch = true;
  // Accumulation that adds up whole gradients between reductions (no_sync).
  bool accumulates_whole_gradients = false;
  bool gradient_as_bucket_view = true;   // none and zero1
  bool emulated_reduce_scatter = false;  // Gloo
};

// Per rank, in bytes; of the rank that holds most.
struct MemoryEstimate {
  ZeroStage stage = ZeroStage::none;
  int world_size = 1;
  int shards = 1;  // ranks that share a copy
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t gathered = 0;       // at its peak
  int64_t communication = 0;  // at its peak
  // One whole tensor in the master's dtype, in the CPU's memory: what initialisation and save_model
  // hold beyond the rest, one at a time and not during a step. Not part of total().
  int64_t whole_tensor = 0;

  int64_t total() const {
    return parameters + gradients + optimizer_state + gathered + communication;
  }
  // For people: a table of at most 80 columns, a line per row, each ended by '\n'.
  std::string text() const;
};

// Throws std::invalid_argument naming the field: negative counts, bytes that are not 1 to 16 (0 to
// 64 for the optimizer, 0 to 16 for autocast), a world size below 1 or one that the group does not
// divide.
MemoryEstimate estimate_memory(const MemoryPlan& plan);

// State of an optimizer in bytes per trained parameter, kept in float32: "adam", "adamw" 8 (two
// moments), "amsgrad" 12, "sgd" 0, "sgd_momentum", "adagrad", "rmsprop" 4. Throws
// std::invalid_argument for other names.
int optimizer_state_bytes(std::string_view optimizer);

// The least number of ranks with which a stage fits.
struct MemoryFit {
  ZeroStage stage = ZeroStage::none;
  int world_size = 0;            // 0: does not fit with any number that was tried
  MemoryEstimate estimate = {};  // at that size, or at the largest one tried
};

// For each of the four stages, the plan otherwise unchanged: the least world size up to
// `most_ranks` at which a rank needs at most `bytes`. With a shard group, multiples of its size.
// Throws std::invalid_argument as estimate_memory, and when most_ranks is below the first size.
std::vector<MemoryFit> fits(const MemoryPlan& plan, int64_t bytes, int most_ranks);

// A table of at most 80 columns of what fits() found.
std::string fits_text(const std::vector<MemoryFit>& found, int64_t bytes);

}  // namespace muster
