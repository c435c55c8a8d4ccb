// The type-independent part of a DataLoader: options, rank, position, and the pass through an
// epoch. Accelerator::prepare and checkpoints reach it through DataLoader::core().
//
// The training thread owns a loader: call every function from that thread, unless stated otherwise.
// Worker threads live from the start of a pass to its end.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/sampler.h"
#include "muster/data/sharding.h"

namespace muster {

struct DataLoaderOptions {
  // Samples per batch and rank; with DataLoaderConfiguration::split_batches, of all ranks together.
  int64_t batch_size = 1;
  // true: each epoch has a different order, a pure function of (seed, epoch). false: dataset order.
  // Streams always keep their own order.
  bool shuffle = false;
  uint64_t seed = 0;
  // Drops the samples at the end of an epoch that do not fill a batch on every rank.
  bool drop_last = false;
  // Threads that build batches ahead of the loop. 0: the loop builds each batch when it needs it.
  int num_workers = 0;
  int prefetch_factor = 2;  // batches per worker that are ready or being built
  // Copies batches into page-locked memory before they are sent to a device. Default: if the device
  // is not the CPU.
  std::optional<bool> pin_memory;
  // Your own sampler: returns the dataset indices of an epoch, in order; called on the training
  // thread when the epoch begins. It must return the same indices on every rank and on every call
  // with the same epoch. Samples may be omitted or repeated, but all epochs must have the same
  // length. Not with shuffle. Any object with `std::vector<int64_t> operator()(int64_t epoch)`
  // works.
  std::function<std::vector<int64_t>(int64_t epoch)> order;
};

class Collectives;
class LoaderCore;

// For DataLoaderOptions::order: the permutations of Accelerate's
// SeedableRandomSampler(data_seed=seed), which are torch's randperm with a generator seeded with
// seed + epoch. Unlike shuffle, keeps one epoch's indices in memory.
std::function<std::vector<int64_t>(int64_t epoch)> seedable_random_order(int64_t dataset_size,
                                                                         uint64_t seed);

// What Accelerator::prepare passes to a loader.
struct LoaderContext {
  int rank = 0;
  int world_size = 1;
  // Where batches are sent. nullopt: they stay where the dataset and the collate function created
  // them.
  std::optional<at::Device> device;
  DataLoaderConfiguration configuration;
  std::shared_ptr<Collectives> collectives;  // scatters batches, with dispatch_batches
  // Called on the training thread after each batch, with the seconds that the loop waited for it.
  std::function<void(double seconds)> on_wait;
  // Called on the training thread when a pass over this loader begins (true) and when it ends, is
  // abandoned or fails (false). Must not throw.
  std::function<void(const LoaderCore& loader, bool active)> on_active;
};

// The seed for random augmentation of a sample: a pure function of its arguments.
uint64_t sample_random_seed(uint64_t seed, int64_t epoch, int64_t index);

namespace loader_detail {

// A type-erased batch; only the DataLoader knows its type.
class AnyBatch {
 public:
  virtual ~AnyBatch() = default;
  // Copies the tensors into page-locked memory.
  virtual void pin() = 0;
  virtual void send(at::Device device, bool non_blocking) = 0;
  // For sending a batch to other ranks: everything but the tensors (nested_structure), and the
  // tensors.
  virtual std::string structure() const = 0;
  virtual std::vector<at::Tensor> tensors() const = 0;
};

// Samples read from a stream.
class AnySamples {
 public:
  virtual ~AnySamples() = default;
  virtual int64_t size() const = 0;
};

struct MakeRequest {
  std::span<const int64_t> picks;  // dataset indices; for a stream, slots of the step (ShardRule)
  uint64_t seed = 0;
  int64_t epoch = 0;
  int worker = 0;
  // The index of the sample being fetched; -1 while the batch as a whole is being built.
  int64_t current = -1;
};

// Dataset and collate function behind one interface. All workers may call make at once; reset,
// read, skip and keep_first (for streams) are called by one thread at a time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual int64_t size() const = 0;  // samples; -1: a stream
  virtual void prepare_workers(int count) = 0;
  virtual std::unique_ptr<AnyBatch> make(MakeRequest& request, AnySamples* samples) = 0;
  virtual std::unique_ptr<AnyBatch> rebuild(const std::string& structure,
                                            std::vector<at::Tensor> tensors) const = 0;
  virtual std::string describe(int64_t index) const = 0;  // empty: nothing is known

  virtual void reset(int64_t epoch) = 0;
  // Up to `count` samples, fewer only at the end. Increments `done` after each sample.
  virtual std::unique_ptr<AnySamples> read(int64_t count, int64_t& done) = 0;
  virtual int64_t skip(int64_t count) = 0;
  // Appends copies of the first `count` samples to the saved first samples of the epoch.
  virtual void keep_first(const AnySamples& samples, int64_t count) = 0;
};

void pin_tensor(at::Tensor& tensor);
void send_tensor(at::Tensor& tensor, at::Device device, bool non_blocking);
[[noreturn]] void throw_no_tensors();  // a batch without tensors cannot be dispatched

}  // namespace loader_detail

class LoaderCore {
 public:
  // Throws std::invalid_argument naming the option that is out of range.
  LoaderCore(std::unique_ptr<loader_detail::BatchSource> source, const DataLoaderOptions& options);
  ~LoaderCore();
  LoaderCore(const LoaderCore&) = delete;
  LoaderCore& operator=(const LoaderCore&) = delete;

  // Sets the loader's rank and world; discards a pass in progress and keeps the position. A loader
  // that is not attached is that of a single process. Throws std::invalid_argument if rank,
  // world_size, batch_size and split_batches are inconsistent, or if dispatch_batches is set
  // without collectives.
  void attach(LoaderContext context);
  const LoaderContext& context() const;
  const DataLoaderOptions& options() const;

  // ---- Position ----
  // What the loop has received, over all ranks, not what workers have read ahead: a batch counts
  // from the moment the loop receives it. After the last batch of an epoch the position is the
  // epoch's end; once the loop has ended, it is the start of the next epoch.
  DataPosition position() const;
  // The next pass continues here, whatever world size and batch size the position was saved with.
  // Discards a pass in progress: its loop ends. Throws std::invalid_argument if the position lies
  // outside the dataset.
  void set_position(const DataPosition& position);
  int64_t epoch() const { return position().epoch; }
  // The next pass begins this epoch. Does nothing if it is the current one, so calling it at the
  // start of each epoch does not undo set_position. Throws std::invalid_argument if negative.
  void set_epoch(int64_t epoch);
  // The next pass starts `batches` global batches after the start of the epoch, or after a position
  // that was just set; past the end of the epoch it is empty. Throws std::invalid_argument if
  // negative.
  void skip_batches(int64_t batches);

  // ---- Sizes ----
  int64_t dataset_size() const;       // samples of an epoch; -1: unknown (a stream)
  int64_t batches_per_epoch() const;  // of this rank, from the epoch's start; -1: unknown
  int64_t total_batch_size() const;   // samples of a full batch over all ranks

  // ---- The batch that the loop is processing ----
  bool active() const;  // a pass is in progress
  // Whether it is this rank's last of the epoch. False outside a pass.
  bool end_of_dataloader() const;
  // The number of real samples in the global batch if it is the epoch's short last one; -1
  // otherwise. Gathered in rank order, the global batch is these samples followed by repeated ones.
  int64_t remainder() const;
  // This rank's remaining batches of the epoch, including this one; -1: unknown. 0 outside a pass.
  int64_t batches_left() const;

  // ---- For DataLoader ----
  // Begins a pass and returns its number. With `resume`, or after set_position, set_epoch or
  // skip_batches, it begins at the position; otherwise at the start of the epoch.
  uint64_t start(bool resume);
  // The next batch, or nullptr at the end of the epoch. Throws std::logic_error if another pass has
  // begun since, and DataError for exceptions of the dataset (a DoNotRetryError stays one).
  std::unique_ptr<loader_detail::AnyBatch> next(uint64_t pass);
  // Ends the pass if it is still in progress: stops and joins its threads.
  void abandon(uint64_t pass) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
