// The global batch as a contract: the user states how many samples one optimizer step takes, and
// the plan says how they come together from micro-batches, accumulation and ranks.
//
//   auto plan = muster::plan_batch({.global_batch = 256, .max_micro_batch = 32}, world_size);
//   // plan.equation(): "global batch 256 = 32 micro-batch × 4 accumulation × 2 ranks"
//
// A script tuned on 8 cards, run on 2 with the global batch following the world:
//
//   plan_batch({.global_batch = 256, .micro_batch = 32, .keep_global_batch = false,
//               .learning_rate_rule = muster::LearningRateRule::linear}, 2);
//   // 32 × 1 × 2 = 64 samples a step, learning_rate_factor 0.25
//
// Pure values: no torch, no rank talks to another. All ranks compute the same plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

// How the learning rate follows a global batch that differs from the one it was tuned for.
enum class LearningRateRule {
  none,         // it stays
  linear,       // × new / reference. Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017
  square_root,  // × sqrt(new / reference). Source: Krizhevsky, "One weird trick", 2014; usual for
                // Adam
};

struct BatchContract {
  // Samples per optimizer step over all ranks, at least 1.
  int64_t global_batch = 0;
  // The most samples of one rank's forward pass that fit into memory; 0: any number. The largest
  // micro-batch up to it that divides is taken.
  int64_t max_micro_batch = 0;
  // Samples of one rank's forward pass, when they shall not be chosen.
  std::optional<int64_t> micro_batch = std::nullopt;
  // Micro-batches of one optimizer step, when they shall not be chosen.
  std::optional<int64_t> accumulation_steps = std::nullopt;
  // true: global_batch is kept exactly, or plan_batch refuses. false: it may change with the world:
  // with micro_batch given to micro_batch × accumulation_steps (1 unless given) × ranks, else to
  // the nearest number that divides (the smaller of two).
  bool keep_global_batch = true;
  LearningRateRule learning_rate_rule = LearningRateRule::none;
  // The global batch that the learning rate was tuned for; `global_batch` when not given.
  std::optional<int64_t> reference_global_batch = std::nullopt;
};

struct BatchPlan {
  int64_t micro_batch = 0;            // samples of one rank's forward pass
  int64_t accumulation_steps = 0;     // forward and backward passes per optimizer step
  int64_t world_size = 0;             // ranks
  int64_t global_batch = 0;           // the product of the three
  double learning_rate_factor = 1.0;  // multiply the tuned learning rate by it

  bool operator==(const BatchPlan&) const = default;

  // "global batch 32 = 8 micro-batch × 2 accumulation × 2 ranks" (UTF-8).
  std::string equation() const;
};

// Solves the contract for world_size ranks. Throws std::invalid_argument when a number is out of
// its range (global_batch, micro_batch, accumulation_steps and reference_global_batch at least 1
// and at most 2^40, max_micro_batch at least 0, world_size at least 1), when micro_batch is above
// max_micro_batch, or when the global batch cannot be kept; the message then names what would do.
BatchPlan plan_batch(const BatchContract& contract, int64_t world_size);

}  // namespace muster
