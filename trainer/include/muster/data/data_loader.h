// This rank's batches of a dataset, in an order that can be resumed with any world size.
//
//   muster::DataLoader loader(dataset, {.batch_size = 32, .shuffle = true, .seed = 1});
//   loader = accelerator.prepare(loader);
//   for (int64_t epoch = loader.epoch(); epoch < 10; epoch = loader.epoch()) {
//     for (auto& [images, labels] : loader) …   // one epoch
//   }
//
// Datasets: dataset.h, file_datasets.h. Collating: collate.h. How an epoch is split across ranks:
// sharding.h. Options, position and epochs: loader_core.h.
#pragma once

#include <concepts>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/refused.h"
#include "muster/data/collate.h"
#include "muster/data/dataset.h"
#include "muster/data/loader_core.h"

namespace muster {

namespace loader_detail {

template <typename Collate>
constexpr bool is_default = std::is_same_v<Collate, DefaultCollate>;
template <typename D>
concept GetsSamples = SeededSamples<D> || ConstSamples<D> || MutableSamples<D>;
// Workers share the dataset; otherwise each has a copy.
template <typename D>
constexpr bool is_shared =
    StreamStyleDataset<D> || SeededSamples<D> || ConstSamples<D> || GathersBatches<D>;

template <typename D>
decltype(auto) get_sample(D& dataset, int64_t index, const MakeRequest& request) {
  if constexpr (SeededSamples<D>) {
    return std::as_const(dataset).get(index,
                                      sample_random_seed(request.seed, request.epoch, index));
  } else if constexpr (ConstSamples<D>) {
    return std::as_const(dataset).get(index);
  } else if constexpr (MutableSamples<D>) {
    return dataset.get(index);
  }
}

struct NoSample {};  // for a dataset that only returns whole batches
template <typename D>
auto sample_type(D& dataset, const MakeRequest& request) {
  if constexpr (StreamStyleDataset<D>) {
    return *dataset.next();
  } else if constexpr (GetsSamples<D>) {
    return get_sample(dataset, 0, request);
  } else {
    return NoSample();
  }
}
template <typename D>
using SampleOf = decltype(sample_type(std::declval<D&>(), std::declval<const MakeRequest&>()));

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// One batch of a map-style dataset, by the fastest method that it has.
template <typename D, typename Collate>
auto make_batch(D& dataset, const Collate& collate, MakeRequest& request) {
  if constexpr (GathersBatches<D> && is_default<Collate>) {
    return std::as_const(dataset).get_batch(request.picks);
  } else if constexpr (GetsSamples<D>) {
    std::vector<SampleOf<D>> samples;
    samples.reserve(request.picks.size());
    for (const int64_t index : request.picks) {
      request.current = index;
      samples.push_back(get_sample(dataset, index, request));
    }
    request.current = -1;
    return collate(std::move(samples));
  } else {
    static_assert(TorchBatches<D>, "a collate function needs a dataset with get(index)");
    const std::vector<size_t> indices(request.picks.begin(), request.picks.end());
    auto batch = dataset.get_batch(at::ArrayRef<size_t>(indices));
    if constexpr (IsVector<decltype(batch)>::value) {
      return collate(std::move(batch));
    } else {
      static_assert(is_default<Collate>, "this dataset's batches are collated already");
      return batch;
    }
  }
}

template <typename D, typename Collate>
auto batch_type(D& dataset, const Collate& collate, MakeRequest& request) {
  if constexpr (StreamStyleDataset<D>) {
    return collate(std::vector<SampleOf<D>>());
  } else {
    return make_batch(dataset, collate, request);
  }
}
template <typename D, typename Collate>
using BatchOf = decltype(batch_type(std::declval<D&>(), std::declval<const Collate&>(),
                                    std::declval<MakeRequest&>()));

template <typename Batch>
class TypedBatch final : public AnyBatch {
 public:
  explicit TypedBatch(Batch batch) : value(std::move(batch)) {}

  void pin() override {
    if constexpr (Nested<Batch>) visit_tensors(value, pin_tensor);
  }
  void send(at::Device device, bool non_blocking) override {
    if constexpr (Nested<Batch>) {
      visit_tensors(value, [&](at::Tensor& tensor) { send_tensor(tensor, device, non_blocking); });
    }
  }
  std::string structure() const override {
    if constexpr (Nested<Batch>) {
      return nested_structure(value);
    } else {
      throw_no_tensors();
    }
  }
  std::vector<at::Tensor> tensors() const override {
    if constexpr (Nested<Batch>) {
      return flatten_tensors(value);
    } else {
      throw_no_tensors();
    }
  }

  Batch value;
};

template <typename Sample>
class TypedSamples final : public AnySamples {
 public:
  int64_t size() const override { return static_cast<int64_t>(samples.size()); }
  std::vector<Sample> samples;
};

template <typename D, typename Collate>
class DatasetSource final : public BatchSource {
 public:
  using Batch = BatchOf<D, Collate>;

  DatasetSource(std::shared_ptr<D> dataset, Collate collate)
      : dataset_(std::move(dataset)), collate_(std::move(collate)) {}

  int64_t size() const override {
    if constexpr (StreamStyleDataset<D>) {
      return -1;
    } else {
      return dataset_size(*dataset_);
    }
  }

  void prepare_workers(int count) override {
    if constexpr (!is_shared<D>) {
      while (copies_.size() < static_cast<size_t>(count)) {
        copies_.push_back(std::make_unique<D>(*dataset_));
      }
    }
  }

  std::unique_ptr<AnyBatch> make(MakeRequest& request, AnySamples* samples) override {
    if constexpr (StreamStyleDataset<D>) {
      return wrap(std::as_const(collate_)(pick(request.picks, *samples)));
    } else if constexpr (is_shared<D>) {
      return wrap(make_batch(*dataset_, collate_, request));
    } else {
      return wrap(make_batch(*copies_[static_cast<size_t>(request.worker)], collate_, request));
    }
  }

  std::unique_ptr<AnyBatch> rebuild(const std::string& structure,
                                    std::vector<at::Tensor> tensors) const override {
    if constexpr (Nested<Batch> && std::default_initializable<Batch>) {
      return wrap(with_tensors(nested_from_structure<Batch>(structure), std::move(tensors)));
    } else {
      throw_no_tensors();
    }
  }

  std::string describe(int64_t index) const override {
    if constexpr (requires { std::as_const(*dataset_).describe(index); }) {
      return std::as_const(*dataset_).describe(index);
    } else {
      return {};
    }
  }

  void reset(int64_t epoch) override {
    if constexpr (StreamStyleDataset<D>) {
      first_.clear();
      dataset_->reset(epoch);
    }
  }

  std::unique_ptr<AnySamples> read(int64_t count, int64_t& done) override {
    auto read = std::make_unique<TypedSamples<SampleOf<D>>>();
    if constexpr (StreamStyleDataset<D>) {
      while (read->size() < count) {
        auto sample = dataset_->next();
        if (!sample) break;
        read->samples.push_back(std::move(*sample));
        ++done;
      }
    }
    return read;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    if constexpr (requires { dataset_->skip(count); }) {
      skipped = static_cast<int64_t>(dataset_->skip(count));
    } else if constexpr (StreamStyleDataset<D>) {
      while (skipped < count && dataset_->next()) ++skipped;
    }
    return skipped;
  }

  void keep_first(const AnySamples& samples, int64_t count) override {
    if constexpr (StreamStyleDataset<D>) {
      static_assert(std::copy_constructible<SampleOf<D>>,
                    "a stream's samples must be copyable: a few fill the last batch up");
      const auto& from = static_cast<const TypedSamples<SampleOf<D>>&>(samples).samples;
      first_.insert(first_.end(), from.begin(), from.begin() + count);
    }
  }

 private:
  static std::unique_ptr<AnyBatch> wrap(Batch batch) {
    return std::make_unique<TypedBatch<Batch>>(std::move(batch));
  }

  // Each position of a step is picked once, so the samples can be moved.
  std::vector<SampleOf<D>> pick(std::span<const int64_t> places, AnySamples& samples) const {
    auto& from = static_cast<TypedSamples<SampleOf<D>>&>(samples).samples;
    std::vector<SampleOf<D>> picked;
    picked.reserve(places.size());
    for (const int64_t place : places) {
      const auto at = static_cast<size_t>(place);
      if (at < from.size()) {
        picked.push_back(std::move(from[at]));
      } else {
        picked.push_back(first_[(at - from.size()) % first_.size()]);
      }
    }
    return picked;
  }

  std::shared_ptr<D> dataset_;
  Collate collate_;
  std::vector<std::unique_ptr<D>> copies_;  // one per worker, if the dataset is not shared
  std::vector<SampleOf<D>> first_;  // of a stream's epoch; written before any batch needs them
};

}  // namespace loader_detail

// A handle: copies share one loader. Starting a pass ends the previous one, so only the newest
// iterator may be advanced.
template <AnyDataset Dataset, typename Collate = DefaultCollate>
class DataLoader {
 public:
  using Batch = loader_detail::BatchOf<Dataset, Collate>;

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Iterator(Iterator&&) = default;
    Iterator& operator=(Iterator&& other) noexcept {
      std::swap(core_, other.core_);
      std::swap(pass_, other.pass_);
      std::swap(batch_, other.batch_);
      return *this;
    }
    ~Iterator() {
      if (core_) core_->abandon(pass_);
    }

    // The iterator owns the batch until it is advanced; callers may modify it or move from it.
    Batch& operator*() const { return batch_->value; }
    Batch* operator->() const { return &batch_->value; }
    Iterator& operator++() {
      batch_.reset();  // so that the next batch can reuse its memory
      take();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

   private:
    friend class DataLoader;
    Iterator(std::shared_ptr<LoaderCore> core, bool resume)
        : core_(std::move(core)), pass_(core_->start(resume)) {
      take();
    }
    void take() {
      using Typed = loader_detail::TypedBatch<Batch>;
      batch_.reset(static_cast<Typed*>(core_->next(pass_).release()));
    }

    std::shared_ptr<LoaderCore> core_;
    uint64_t pass_;
    std::unique_ptr<loader_detail::TypedBatch<Batch>> batch_;
  };

  // The rest of an epoch as a range; see rest().
  class Rest {
   public:
    Iterator begin() const { return Iterator(core_, /*resume=*/true); }
    std::default_sentinel_t end() const { return {}; }

   private:
    friend class DataLoader;
    explicit Rest(std::shared_ptr<LoaderCore> core) : core_(std::move(core)) {}
    std::shared_ptr<LoaderCore> core_;
  };

  // Throws std::invalid_argument naming the option that is out of range. A dataset passed as a
  // shared_ptr stays shared with the caller.
  DataLoader(std::shared_ptr<Dataset> dataset, const DataLoaderOptions& options = {},
             Collate collate = {})
      : dataset_(std::move(dataset)),
        core_(std::make_shared<LoaderCore>(
            std::make_unique<loader_detail::DatasetSource<Dataset, Collate>>(dataset_,
                                                                             std::move(collate)),
            options)) {}
  DataLoader(Dataset dataset, const DataLoaderOptions& options = {}, Collate collate = {})
      : DataLoader(std::make_shared<Dataset>(std::move(dataset)), options, std::move(collate)) {}

  // One epoch from its start; after set_position or skip_first_batches, the rest of it. Discards an
  // unfinished pass and joins its threads. Throws what the first batch throws (see
  // LoaderCore::next).
  Iterator begin() const { return Iterator(core_, /*resume=*/false); }
  std::default_sentinel_t end() const { return {}; }
  // Let loops written for torch::data::make_data_loader, which returns a pointer, work unchanged:
  // `*loader`, `loader->begin()`, and `loader->epoch()` as well.
  const DataLoader& operator*() const { return *this; }
  const DataLoader* operator->() const { return this; }
  // The epoch from where the loop left it by break or by an exception: `for (auto& batch :
  // loader.rest())`. After break it starts with the batch after the last one delivered, after an
  // exception of the dataset with the batch that failed.
  Rest rest() const { return Rest(core_); }

  // Batches per epoch on this rank; -1: unknown (a stream).
  int64_t size() const { return core_->batches_per_epoch(); }
  int64_t epoch() const { return core_->epoch(); }
  void set_epoch(int64_t epoch) const { core_->set_epoch(epoch); }
  DataPosition position() const { return core_->position(); }
  void set_position(const DataPosition& position) const { core_->set_position(position); }
  int64_t dataset_size() const { return core_->dataset_size(); }
  int64_t total_batch_size() const { return core_->total_batch_size(); }
  bool end_of_dataloader() const { return core_->end_of_dataloader(); }
  int64_t remainder() const { return core_->remainder(); }
  int64_t batches_left() const { return core_->batches_left(); }
  const DataLoaderOptions& options() const { return core_->options(); }

  // torchdata's names.
  template <typename... Arguments>
  refused::Nothing state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "loader.state_dict(): accelerator.save_state(step) saves the position; by "
                  "itself it is loader.position()");
    return {};
  }
  template <typename... Arguments>
  refused::Nothing load_state_dict(Arguments&&...) const {
    static_assert(refused::when_called<Arguments...>,
                  "loader.load_state_dict(): accelerator.load_state() loads the position; by "
                  "itself it is loader.set_position(position)");
    return {};
  }

  Dataset& dataset() const { return *dataset_; }
  const std::shared_ptr<LoaderCore>& core() const { return core_; }

 private:
  std::shared_ptr<Dataset> dataset_;
  std::shared_ptr<LoaderCore> core_;
};

template <AnyDataset D>
DataLoader(std::shared_ptr<D>) -> DataLoader<D>;
template <AnyDataset D>
DataLoader(std::shared_ptr<D>, const DataLoaderOptions&) -> DataLoader<D>;
template <AnyDataset D, typename Collate>
DataLoader(std::shared_ptr<D>, const DataLoaderOptions&, Collate) -> DataLoader<D, Collate>;

namespace loader_detail {

// Stands for what is not a dataset, so that the compiler prints one sentence.
struct NotADataset {
  template <typename T>
  NotADataset(const T&) {
    static_assert(refused::when_called<T>,
                  "DataLoader(): this type is not a dataset, which has size() and get(index), or "
                  "reset(epoch) and next(): for tensors write muster::TensorDataset(inputs, "
                  "targets), with a std::vector's values in torch::tensor(values)");
  }
  int64_t size() const { return 0; }
  at::Tensor get(int64_t) const { return {}; }
};

template <typename T>
constexpr bool is_dataset = AnyDataset<T>;
template <typename T>
constexpr bool is_dataset<std::shared_ptr<T>> = AnyDataset<T>;

}  // namespace loader_detail

template <typename T>
requires(!loader_detail::is_dataset<T>) DataLoader(T)
->DataLoader<loader_detail::NotADataset>;
template <typename T>
requires(!loader_detail::is_dataset<T>) DataLoader(T, const DataLoaderOptions&)
->DataLoader<loader_detail::NotADataset>;
template <typename T, typename Collate>
requires(!loader_detail::is_dataset<T>) DataLoader(T, const DataLoaderOptions&, Collate)
->DataLoader<loader_detail::NotADataset, Collate>;

// Makes the loader's next pass skip the first `batches` global batches (of the rest of the epoch,
// if a position was just set); later passes are complete. A stream reads and drops them. Unlike
// Accelerate's function, it returns the same loader, which keeps its epoch and position. Throws
// std::invalid_argument if negative.
template <typename Dataset, typename Collate>
DataLoader<Dataset, Collate> skip_first_batches(const DataLoader<Dataset, Collate>& loader,
                                                int64_t batches) {
  loader.core()->skip_batches(batches);
  return loader;
}

}  // namespace muster
