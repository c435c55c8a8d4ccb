// What a DataLoader is without its types: options, place among the ranks, position, and the run
// through an epoch. Accelerator::prepare and checkpoints reach it by DataLoader::core().
//
// The training thread owns a loader: every function here is for that thread, unless it says
// otherwise. Worker threads live from the start of a pass to its end.
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
  // Samples of a batch, of each rank; of all ranks together with
  // DataLoaderConfiguration::split_batches.
  int64_t batch_size = 1;
  // true: every epoch in an order of its own, a pure function of (seed, epoch). false: in the order
  // of the dataset. A stream's order is always its own.
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_last =
      false;  // leave out the samples at the end that do not fill a batch on every rank
  // Threads that make batches ahead of the loop. 0: the loop makes each batch when it comes to it.
  int num_workers = 0;
  int prefetch_factor = 2;  // batches that are ready or in the making, for each worker
  // Batches pass through page-locked memory on their way to a device. Default: when batches go to a
  // device that is not the CPU.
  std::optional<bool> pin_memory;
  // A sampler of your own: the dataset indices of an epoch, in order, called on the training thread
  // when the epoch begins. It must give the same on every rank and every time it is called with
  // this epoch; samples may be left out or repeated, but all epochs must be equally long. Not with
  // shuffle. Any object with `std::vector<int64_t> operator()(int64_t epoch)` will do.
  std::function<std::vector<int64_t>(int64_t epoch)> order;
};

class Collectives;
class LoaderCore;

// For DataLoaderOptions::order: the permutations of a Python script that shuffles with Accelerate's
// SeedableRandomSampler(data_seed=seed), and of torch's randperm with a generator seeded seed +
// epoch. Keeps the indices of one epoch in memory, unlike shuffle.
std::function<std::vector<int64_t>(int64_t epoch)> seedable_random_order(int64_t dataset_size,
                                                                         uint64_t seed);

// What Accelerator::prepare tells a loader.
struct LoaderContext {
  int rank = 0;
  int world_size = 1;
  // Where batches go. nullopt: they stay where the dataset and the collate function made them.
  std::optional<at::Device> device;
  DataLoaderConfiguration configuration;
  std::shared_ptr<Collectives> collectives;  // deals batches out, with dispatch_batches
  // Called on the training thread after each batch: the seconds that the loop waited for it.
  std::function<void(double seconds)> on_wait;
  // Called on the training thread when a pass over this loader begins (true) and when it ends, is
  // broken off or fails (false). Must not throw.
  std::function<void(const LoaderCore& loader, bool active)> on_active;
};

// The number that random augmentation of a sample should start from: depends on nothing else.
uint64_t sample_random_seed(uint64_t seed, int64_t epoch, int64_t index);

namespace loader_detail {

// A batch whose type only the DataLoader knows.
class AnyBatch {
 public:
  virtual ~AnyBatch() = default;
  // Copies the tensors into page-locked memory.
  virtual void pin() = 0;
  virtual void send(at::Device device, bool non_blocking) = 0;
  // For the way between ranks: everything but the tensors (nested_structure), and the tensors.
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
  std::span<const int64_t> picks;  // dataset indices; of a stream: places in the step (ShardRule)
  uint64_t seed = 0;
  int64_t epoch = 0;
  int worker = 0;
  // Set to the index whose sample is being fetched, -1 while it is about the batch as a whole.
  int64_t current = -1;
};

// Dataset and collate function behind one face. make may be called by all workers at once; of a
// stream, reset, read, skip and keep_first by one thread at a time.
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
  // Up to `count` samples, fewer only at the end. Adds to `done` with each that was read.
  virtual std::unique_ptr<AnySamples> read(int64_t count, int64_t& done) = 0;
  virtual int64_t skip(int64_t count) = 0;
  // Remembers copies of the first `count` of them as the epoch's next first samples.
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

  // Gives the loader its place; a pass that is under way is discarded, the position stays. Without
  // it the loader is that of one process alone. Throws std::invalid_argument when rank, world_size,
  // batch_size and split_batches do not go together, or dispatch_batches comes without collectives.
  void attach(LoaderContext context);
  const LoaderContext& context() const;
  const DataLoaderOptions& options() const;

  // ---- Position ----
  // What the loop has been given, over all ranks, never what workers have read ahead: a batch
  // counts from the moment the loop gets it. After the last batch of an epoch the position is
  // the epoch's end, and the start of the next one as soon as the loop has ended.
  DataPosition position() const;
  // The next pass goes on here, whatever world size and batch size the position was saved with. A
  // pass that is under way is discarded: its loop ends. Throws std::invalid_argument when the
  // position lies outside the dataset.
  void set_position(const DataPosition& position);
  int64_t epoch() const { return position().epoch; }
  // The next pass begins this epoch; nothing happens when it is the current one, so a call at the
  // start of each epoch does not undo set_position. Throws std::invalid_argument when negative.
  void set_epoch(int64_t epoch);
  // The next pass goes on `batches` global batches behind the start of the epoch, or behind the
  // position that was just set; at the end of the epoch it is empty. Throws std::invalid_argument
  // when negative.
  void skip_batches(int64_t batches);

  // ---- Sizes ----
  int64_t dataset_size() const;       // samples of an epoch; -1: unknown (a stream)
  int64_t batches_per_epoch() const;  // of this rank, from the epoch's start; -1: unknown
  int64_t total_batch_size() const;   // samples of a full batch over all ranks

  // ---- About the batch that the loop is working on ----
  bool active() const;  // a pass is under way
  // It is this rank's last of the epoch. False outside a pass.
  bool end_of_dataloader() const;
  // The real samples of the global batch, when it is the epoch's short last one; -1 otherwise. What
  // all ranks give together, in rank order, is these samples and then samples for the second time.
  int64_t remainder() const;
  // Batches of this rank until the end of the epoch, with this one; -1: unknown. 0 outside a pass.
  int64_t batches_left() const;

  // ---- For DataLoader ----
  // Begins a pass and returns its number. With go_on, or after set_position, set_epoch or
  // skip_batches, at the position; else at the start of its epoch.
  uint64_t start(bool go_on);
  // The next batch, or nullptr at the epoch's end. Throws std::logic_error when the pass with this
  // number is over because another one began, and what the dataset threw as DataError (a
  // DoNotRetryError stays one).
  std::unique_ptr<loader_detail::AnyBatch> next(uint64_t pass);
  // Ends the pass if it is still under way: stops and joins its threads.
  void abandon(uint64_t pass) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
