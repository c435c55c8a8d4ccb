// How the samples of an epoch are dealt out to the ranks, step by step.
//
// An epoch is an order of samples. Each step takes the next step_size() of them; rank r gets the
// r-th run. Only the last step of an epoch can be short, and the options say what becomes of it.
// Pure computation, any thread. No torch.
#pragma once

#include <cstdint>

namespace muster {

// How all loaders of a job are prepared (AcceleratorOptions::dataloader_config). Names and meanings
// are those of Accelerate's DataLoaderConfiguration.
struct DataLoaderConfiguration {
  // false: a loader's batch_size is that of each rank. true: it is that of all ranks together and
  // must be a multiple of their number.
  bool split_batches = false;
  // true: rank 0 alone reads, and scatters each global batch by dimension 0; what a batch holds
  // besides tensors reaches every rank whole. The dataset of the other ranks is only asked for its
  // size.
  bool dispatch_batches = false;
  // true: at the end of an epoch every rank gets equally many samples, some of them for the second
  // time (gather_for_metrics drops those). false: no sample twice; the last batches differ in
  // size, and some ranks may get one batch fewer (see Accelerator::join_uneven_inputs).
  bool even_batches = true;
  // Copies from page-locked memory to the device do not make the training thread wait.
  bool non_blocking = true;
  // The short last step. false: dealt out as evenly as can be, at most world_size - 1 samples
  // twice. true: as Accelerate does it, in runs of batch_size: even_batches then fills every rank's
  // batch up to batch_size with the epoch's first samples, and without even_batches the last ranks
  // get none. Without effect on dispatched batches, which both deal out evenly.
  bool accelerate_last_step = false;
};

struct ShardRuleOptions {
  int64_t batch_size = 1;  // as the loader's: see split_batches
  int world_size = 1;
  bool drop_last = false;  // leave out a short last step
  bool split_batches = false;
  bool even_batches = true;
  bool accelerate_last_step = false;
};

// A run of places within a step. Places from the step's number of real samples on stand for the
// epoch's first samples: place taken + c for sample c (and around again when there are too few).
struct StepShare {
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const StepShare&) const = default;
};

// Equal, list by list, to Accelerate 1.15's BatchSamplerShard and IterableDatasetShard when
// accelerate_last_step is set (with one rank to torch's BatchSampler, as Accelerate does not shard
// then), and for full steps always.
class ShardRule {
 public:
  // Throws std::invalid_argument: batch_size or world_size below 1, or split_batches with a
  // batch_size that is no multiple of world_size.
  explicit ShardRule(const ShardRuleOptions& options);

  const ShardRuleOptions& options() const { return options_; }
  int64_t rank_batch_size() const { return rank_batch_size_; }  // samples of a rank in a full step
  int64_t step_size() const { return rank_batch_size_ * options_.world_size; }

  // The share of a rank in a step that takes `taken` samples; 1 <= taken <= step_size(). A count of
  // 0 means that the rank has no such step.
  StepShare share(int64_t taken, int rank) const;

  // How many batches a rank gets from `samples` samples that are left of an epoch.
  int64_t batches(int64_t samples, int rank) const;

  // How many of the epoch's first samples a short last step can need.
  int64_t fill_max() const;

 private:
  ShardRuleOptions options_;
  int64_t rank_batch_size_;
};

}  // namespace muster
