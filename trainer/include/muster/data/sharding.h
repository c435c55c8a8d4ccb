// How the samples of an epoch are split across the ranks, step by step.
//
// An epoch is an ordering of samples. Each step takes the next step_size() of them, and rank r gets
// the r-th run. Only the last step of an epoch can be short; the options define how it is split.
// Pure computation, any thread. No torch.
#pragma once

#include <cstdint>
#include <optional>

namespace muster {

// How all loaders of a job are prepared (AcceleratorOptions::dataloader_config). Names and
// semantics are those of Accelerate's DataLoaderConfiguration.
struct DataLoaderConfiguration {
  // false: a loader's batch_size is per rank. true: it is the total over all ranks and must be a
  // multiple of the world size.
  bool split_batches = false;
  // true: only rank 0 reads, and scatters each global batch along dimension 0; everything in a
  // batch other than tensors is sent to every rank in full. On the other ranks, only the dataset's
  // size is used. Unset: false; Accelerate dispatches streams then, which accelerate_last_step
  // follows where the numbers differ.
  std::optional<bool> dispatch_batches;
  // true: at the end of an epoch every rank gets the same number of samples, some of them repeated
  // (gather_for_metrics drops the repeated ones). false: no sample is repeated; the last batches
  // differ in size, and some ranks may get one batch fewer (see Accelerator::join_uneven_inputs).
  bool even_batches = true;
  // Copies from page-locked memory to the device do not block the training thread.
  bool non_blocking = true;
  // How the short last step is split. false: as evenly as possible, with at most world_size - 1
  // repeated samples. true: as in Accelerate, in runs of batch_size: with even_batches, every
  // rank's batch is filled up to batch_size with the epoch's first samples; without, the last ranks
  // get none. No effect with dispatch_batches, nor on a stream for which that is unset: Accelerate
  // splits evenly there, too.
  bool accelerate_last_step = false;
};

struct ShardRuleOptions {
  int64_t batch_size = 1;  // the loader's: see split_batches
  int world_size = 1;
  bool drop_last = false;  // drop a short last step
  bool split_batches = false;
  bool even_batches = true;
  bool accelerate_last_step = false;
};

// A run of slots within a step. Slots past the step's `taken` real samples refer to the epoch's
// first samples: slot taken + c to sample c (wrapping around if there are too few).
struct StepShare {
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const StepShare&) const = default;
};

// For full steps, and for all steps with accelerate_last_step, produces the same index lists as
// Accelerate 1.15's BatchSamplerShard and IterableDatasetShard (with one rank, as torch's
// BatchSampler, because Accelerate does not shard then).
class ShardRule {
 public:
  // Throws std::invalid_argument if batch_size or world_size is below 1, or if split_batches is set
  // and batch_size is not a multiple of world_size.
  explicit ShardRule(const ShardRuleOptions& options);

  const ShardRuleOptions& options() const { return options_; }
  int64_t rank_batch_size() const { return rank_batch_size_; }  // samples per rank in a full step
  int64_t step_size() const { return rank_batch_size_ * options_.world_size; }

  // A rank's share of a step that takes `taken` samples; 1 <= taken <= step_size(). A count of 0
  // means that the rank does not take part in this step.
  StepShare share(int64_t taken, int rank) const;

  // How many batches a rank gets from the `samples` remaining samples of an epoch.
  int64_t batches(int64_t samples, int rank) const;

  // How many of the epoch's first samples a short last step can need.
  int64_t fill_max() const;

 private:
  ShardRuleOptions options_;
  int64_t rank_batch_size_;
};

}  // namespace muster
