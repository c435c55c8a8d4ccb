// Training a model that is sharded across the ranks (ZeRO, FSDP).
//
//   muster::Accelerator accelerator({.sharding = {.stage = muster::ZeroStage::zero3}});
//
// Nothing else in the program changes: no module is wrapped. The parameters are grouped into units
// (the blocks of the model). Each rank owns an equal shard of each unit, in float32, and the
// optimizer steps on these shards only:
//
//   zero1   every rank has all parameters and all gradients; optimizer state is sharded
//   zero2   gradients are sharded too: a unit's are reduce-scattered as soon as backward has them
//   zero3   parameters too: the first operator that reads a unit, in forward or in backward,
//           unshards it (gathers it from all ranks); it is resharded when the next one is in use
//
// zero2 and zero3 hook into the operators (a dispatcher fallback on the parameters), so a module
// may use its parameters in any way, as long as all ranks do the same in the same order and use
// LibTorch's operators. Between backward and the next forward a zero3 parameter has no memory, and
// using it throws; Accelerator::full_parameters unshards it temporarily. With zero3 every forward
// is collective, even in evaluation (torch::NoGradGuard, eval()): all ranks must run it, equally
// often. To let one rank evaluate alone, all ranks enter full_parameters first. Before each forward
// and backward the ranks compare what they are about to do, so a rank that diverges ends all of
// them with an error that names it (in worlds up to 16 ranks, or with AcceleratorOptions::debug).
//
// Source: Rajbhandari et al., ZeRO (arXiv 1910.02054) for the stages; Zhao et al., PyTorch FSDP
// (arXiv 2304.11277) for units, prefetching and hybrid sharding.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/sharding/memory_estimate.h"
#include "muster/sharding/zero_stage.h"

namespace muster {

struct ShardingOptions {
  ZeroStage stage = ZeroStage::none;  // none: every rank holds everything (DDP)

  // Ranks that shard one copy; must divide the world size. Groups of so many ranks in a
  // row (the ranks of a node, say) each hold a whole copy, and gradients are also averaged between
  // the copies: hybrid sharding, for networks that are slow between nodes. 0: all ranks.
  int shard_group_size = 0;

  // The units, which are gathered as a whole. Names of modules as in named_modules(): each becomes
  // a unit, except that a ModuleList or Sequential makes each of its children a unit. Empty: the
  // children of every outermost ModuleList and Sequential. All other parameters form the root unit,
  // which zero3 keeps unsharded between forward and backward.
  std::vector<std::string> units = {};
  // A child of a list with fewer elements than this shares its unit with the following children,
  // until together they have this many: each unit costs two or three collectives per step, whatever
  // its size (300 layers of 272 weights, each its own unit, took ten times as long as DDP). Modules
  // that `units` names directly are not merged. 0: every child is a unit.
  int64_t unit_numel_min = 131'072;
  // Not 0: units are formed by size instead, from consecutive parameters with at most this many
  // elements in total.
  int64_t unit_numel = 0;

  // The dtype in which units are gathered and used for compute. Not set: float32 for zero1 and
  // zero2, where autocast casts down as it does without sharding. For zero3: bfloat16 in a bf16
  // run, because autocast's copies would keep the whole model in memory; but float32 in an fp16
  // run, so that the scaler sees the same overflows as with DDP (kHalf saves those copies and half
  // of the traffic, but then gradients of norms and embeddings are float16 and cause skipped steps
  // that DDP takes). The optimizer always steps in float32.
  std::optional<at::ScalarType> param_dtype = {};
  // The dtype in which gradients are averaged. Not set: float32.
  std::optional<at::ScalarType> reduce_dtype = {};

  // zero3: reshards a unit after its forward and unshards it again in backward. False: parameters
  // stay unsharded from forward to backward (more memory, one gather less).
  bool reshard_after_forward = true;
  // zero3: starts to unshard the next unit while one computes, by the order of the iteration before.
  bool prefetch = true;
  // Accumulates sharded gradients: every micro-batch is reduce-scattered. False, as in DDP:
  // micro-batches before the last accumulate unsharded gradients without communication.
  bool reduce_every_micro_batch = false;
};

// The input of estimate_memory for a model, before any rank is started; the module may be deferred
// (deferred_init.h). Assumes AdamW; optimizer_bytes and the other fields can be changed in the
// result. Throws std::invalid_argument as Accelerator::prepare would.
MemoryPlan memory_plan(torch::nn::Module& module, const ShardingOptions& options, int world_size);

// Bytes that this rank holds for training, counted from the actual tensors.
struct MemoryUsage {
  int64_t parameters = 0;       // unsharded ones and shards, without `gathered`
  int64_t gradients = 0;        // of the optimizer's tensors, and unsharded ones not yet reduced
  int64_t optimizer_state = 0;  // per-element state of the optimizers
  int64_t gathered = 0;         // zero3 parameters that are unsharded now
  // Peaks since the model was prepared: of unsharded parameters, and of unsharded gradients plus
  // communication buffers.
  int64_t gathered_peak = 0;
  int64_t gradients_peak = 0;

  int64_t total() const { return parameters + gradients + optimizer_state + gathered; }
  // One line for people: "parameters 12.0 MiB, gradients 3.0 MiB, …".
  std::string text() const;
};

}  // namespace muster
