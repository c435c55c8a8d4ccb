// The global batch as a contract: the user states how many samples one optimizer step uses, and the
// plan splits them into micro-batches, accumulation steps and ranks.
//
//   auto plan = muster::plan_batch({.global_batch = 256, .max_micro_batch = 32}, world_size);
//   // plan.equation(): "global batch 256 = 32 micro-batch × 4 accumulation × 2 ranks"
//
// A script tuned on 8 GPUs and run on 2, with a global batch that scales with the world size:
//
//   plan_batch({.global_batch = 256, .micro_batch = 32, .keep_global_batch = false,
//               .learning_rate_rule = muster::LearningRateRule::linear}, 2);
//   // 32 × 1 × 2 = 64 samples a step, learning_rate_factor 0.25
//
// Pure values: no torch, no communication. All ranks compute the same plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

// How the learning rate scales with a global batch that differs from the one it was tuned for.
enum class LearningRateRule {
  none,         // unchanged
  linear,       // × new / reference. Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017
  square_root,  // × sqrt(new / reference). Source: Krizhevsky, "One weird trick", 2014; usual for
                // Adam
};

struct BatchContract {
  // Samples per optimizer step across all ranks, at least 1.
  int64_t global_batch = 0;
  // The most samples that fit into memory in one rank's forward pass; 0: no limit. The plan uses
  // the largest micro-batch up to it that divides the global batch.
  int64_t max_micro_batch = 0;
  // Samples per forward pass of one rank; chosen automatically if not given.
  std::optional<int64_t> micro_batch = std::nullopt;
  // Micro-batches per optimizer step; chosen automatically if not given.
  std::optional<int64_t> accumulation_steps = std::nullopt;
  // true: global_batch is kept exactly, or plan_batch throws. false: it may change with the world
  // size: if micro_batch is given, to micro_batch × accumulation_steps (1 unless given) × ranks,
  // else to the nearest number that divides (the smaller of two).
  bool keep_global_batch = true;
  LearningRateRule learning_rate_rule = LearningRateRule::none;
  // The global batch that the learning rate was tuned for; default: `global_batch`.
  std::optional<int64_t> reference_global_batch = std::nullopt;
};

struct BatchPlan {
  int64_t micro_batch = 0;            // samples of one rank's forward pass
  int64_t accumulation_steps = 0;     // forward and backward passes per optimizer step
  int64_t world_size = 0;             // ranks
  int64_t global_batch = 0;           // the product of the three
  double learning_rate_factor = 1.0;  // multiply the tuned learning rate by this

  bool operator==(const BatchPlan&) const = default;

  // "global batch 32 = 8 micro-batch × 2 accumulation × 2 ranks" (UTF-8).
  std::string equation() const;
};

// Solves the contract for world_size ranks. Throws std::invalid_argument if a number is out of
// range (global_batch, micro_batch, accumulation_steps and reference_global_batch: 1 to 2^40;
// max_micro_batch: at least 0; world_size: at least 1), if micro_batch exceeds max_micro_batch, or
// if the global batch cannot be kept; the message then suggests numbers that work.
BatchPlan plan_batch(const BatchContract& contract, int64_t world_size);

}  // namespace muster
