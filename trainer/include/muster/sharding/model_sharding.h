// Training a model that is sharded over the ranks (ZeRO, FSDP).
//
//   muster::Accelerator accelerator({.sharding = {.stage = muster::ZeroStage::zero3}});
//
// Nothing else of the program changes: no module is wrapped. The parameters are grouped into units
// (the blocks of the model). Each rank owns an equal shard of each unit, in float32, and the
// optimizer steps on these shards alone:
//
//   zero1   every rank has all parameters and all gradients; optimizer state is sharded
//   zero2   gradients are sharded too: a unit's are reduce-scattered as soon as backward has them
//   zero3   parameters too: the first operator that reads a unit, in forward or in backward,
//           unshards it (gathers it from all ranks); it is resharded when the next one is in use
//
// zero2 and zero3 hook into the operators (a dispatcher fallback on the parameters), so whatever a
// module does with its parameters is right, as long as all ranks do the same in the same order and
// use LibTorch's operators. Between backward and the next forward a zero3 parameter has no memory:
// using it then is refused with an error; Accelerator::full_parameters gives it back for a while.
// With zero3 every forward is collective, also of an evaluation (torch::NoGradGuard, eval()): all
// ranks make it, equally often. One rank alone evaluates inside full_parameters, which all enter.
// The ranks compare what they are about to do before each forward and backward, so that one which
// goes another way ends all of them with an error that names it (worlds up to 16 ranks, or with
// AcceleratorOptions::debug).
//
// Source: Rajbhandari et al., ZeRO (arXiv 1910.02054) for the stages; Zhao et al., PyTorch FSDP
// (arXiv 2304.11277) for units, prefetch and the hybrid form.
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

  // What is gathered at once. Names of modules as in named_modules(); each becomes a unit, and each
  // child of a ModuleList or Sequential named here becomes one. Empty: the children of every
  // outermost ModuleList and Sequential. What is in none of them forms the root unit, which zero3
  // keeps between forward and backward.
  std::vector<std::string> units = {};
  // A child of a list with fewer elements than this shares its unit with the children after it,
  // until they have so many together: each unit costs two or three collectives a step, whatever its
  // size (300 layers of 272 weights took ten times as long as DDP as units of their own). A module
  // that `units` names itself stays what it is. 0: every child is a unit.
  int64_t unit_numel_min = 131'072;
  // Not 0: units are made by size instead, of consecutive parameters with at most so many elements.
  int64_t unit_numel = 0;

  // What the units are gathered in and computed with. Not set: float32 for zero1 and zero2, where
  // autocast lowers it as it does without sharding. zero3: bfloat16 in a bf16 run, where autocast's
  // copies would keep the whole model in memory; float32 in an fp16 run all the same, so that the
  // scaler meets DDP's overflows (kHalf saves those copies and half of the traffic, but gradients
  // of norms and embeddings are float16 then and skip steps that DDP makes). The optimizer steps in
  // float32 always.
  std::optional<at::ScalarType> param_dtype = {};
  // What gradients are averaged in. Not set: float32.
  std::optional<at::ScalarType> reduce_dtype = {};

  // zero3: reshards a unit after its forward and unshards it again in backward. False: parameters
  // stay unsharded from forward to backward (more memory, one gather less).
  bool reshard_after_forward = true;
  // zero3: starts to unshard the next unit while one computes, by the order of the iteration before.
  bool prefetch = true;
  // Accumulation without whole gradients: every micro-batch reduces, and only shards add up. False,
  // as DDP does it: micro-batches before the last add up whole gradients and send nothing.
  bool reduce_every_micro_batch = false;
};

// What estimate_memory needs to know of a model, before any rank is started; the module may be
// deferred (deferred_init.h). For AdamW; optimizer_bytes and the rest can be changed in the result.
// Throws std::invalid_argument as Accelerator::prepare would.
MemoryPlan memory_plan(torch::nn::Module& module, const ShardingOptions& options, int world_size);

// Bytes that this rank holds for training, counted from the tensors themselves.
struct MemoryUsage {
  int64_t parameters = 0;       // whole ones and shards, without `gathered`
  int64_t gradients = 0;        // of the optimizer's tensors, and whole ones that wait
  int64_t optimizer_state = 0;  // what the optimizers keep per element
  int64_t gathered = 0;         // parameters of zero3 that are gathered now
  // Since the model was prepared: most that was gathered at once, and most bytes of whole gradients
  // and of buffers on their way to other ranks.
  int64_t gathered_peak = 0;
  int64_t gradients_peak = 0;

  int64_t total() const { return parameters + gradients + optimizer_state + gathered; }
  // One line for people: "parameters 12.0 MiB, gradients 3.0 MiB, …".
  std::string text() const;
};

}  // namespace muster
