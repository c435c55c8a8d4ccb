// Worker threads of a DataLoader: order, bounds, errors, and stopping at any moment.
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "data/loader_world.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Samples with uneven amounts of work, so that workers overtake each other.
struct Jittery {
  int64_t count = 0;
  int64_t size() const { return count; }
  int64_t get(int64_t index, uint64_t random_seed) const {
    for (uint64_t turn = random_seed % 64; turn > 0; --turn) std::this_thread::yield();
    return index;
  }
};

TEST(LoaderWorkers, DeliverTheSameBatchesAsTheLoopAloneForManySeeds) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int workers = 1 + static_cast<int>(seed % 4);
    const int64_t size = 1 + static_cast<int64_t>(seed * 7 % 40);
    const DataLoaderOptions options{.batch_size = 3, .shuffle = true, .seed = seed};
    DataLoaderOptions with_workers = options;
    with_workers.num_workers = workers;
    with_workers.prefetch_factor = 1 + static_cast<int>(seed % 3);
    DataLoader alone(Jittery{size}, options);
    DataLoader ahead(Jittery{size}, with_workers);
    for (int epoch = 0; epoch < 3; ++epoch) {
      const std::vector<Seen> expected = run(alone);
      const std::vector<Seen> seen = run(ahead);
      ASSERT_EQ(seen.size(), expected.size());
      for (size_t i = 0; i < seen.size(); ++i) {
        ASSERT_EQ(seen[i].batch, expected[i].batch) << "seed " << seed;
        ASSERT_EQ(seen[i].position, expected[i].position) << "seed " << seed;
        ASSERT_EQ(seen[i].last, expected[i].last);
      }
    }
  }
}

TEST(LoaderWorkers, EndCleanlyWhereverTheLoopLeavesOff) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    DataLoader loader(Jittery{40}, {.batch_size = 2,
                                    .shuffle = true,
                                    .seed = seed,
                                    .num_workers = 1 + static_cast<int>(seed % 4)});
    uint64_t left = seed % 25;
    for ([[maybe_unused]] auto& batch : loader) {
      if (left-- == 0) break;
    }
    if (seed % 3 == 0) {
      const auto iterator = loader.begin();  // destroyed before the loader, unfinished
    } else if (seed % 3 == 1) {
      EXPECT_EQ(run(loader).size(), 20u);
    }
  }
}

TEST(LoaderWorkers, LetTheIteratorOutliveTheLoader) {
  auto loader = std::make_unique<DataLoader<Jittery>>(
      Jittery{20}, DataLoaderOptions{.batch_size = 2, .num_workers = 2});
  auto iterator = loader->begin();
  loader.reset();
  ++iterator;
  EXPECT_EQ(list(*iterator), (std::vector<int64_t>{2, 3}));
}

// Counts the samples read, and signals when a given number is reached.
struct Counted {
  struct Counter {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t made = 0;
  };
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  int64_t size() const { return 100; }
  int64_t get(int64_t index) const {
    const std::lock_guard lock(counter->mutex);
    ++counter->made;
    counter->changed.notify_all();
    return index;
  }
  int64_t wait_for(int64_t count) const {
    std::unique_lock lock(counter->mutex);
    counter->changed.wait(lock, [&] { return counter->made >= count; });
    return counter->made;
  }
};

TEST(LoaderWorkers, ReadAheadUpToTheBoundAndThePositionDoesNotCountIt) {
  const Counted dataset;
  DataLoader loader(dataset, {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3});
  int64_t taken = 0;
  for ([[maybe_unused]] auto& batch : loader) {
    ++taken;
    // In addition to those taken, six are ready or being built; more are never built.
    EXPECT_EQ(dataset.wait_for(std::min<int64_t>(taken + 6, 100)),
              std::min<int64_t>(taken + 6, 100));
    EXPECT_EQ(loader.position().consumed, taken);
    if (taken == 50) break;
  }
  loader.set_position(loader.position());
  EXPECT_EQ(run(loader)[0].batch, (std::vector<int64_t>{50}));
}

struct Failing {
  int64_t size() const { return 20; }
  int64_t get(int64_t index) const {
    if (index == 14) throw std::runtime_error("the file is gone");
    return index;
  }
  std::string describe(int64_t index) const { return "shard-" + std::to_string(index / 10); }
};

TEST(LoaderWorkers, HandTheLoopAnErrorAtItsOwnBatchWithFileSampleEpochAndRank) {
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(Failing{}, {.batch_size = 2, .num_workers = workers});
    loader.core()->attach({.rank = 1, .world_size = 2});
    loader.set_epoch(7);
    std::vector<int64_t> before;
    try {
      for (auto& batch : loader) {
        for (const int64_t number : list(batch)) before.push_back(number);
      }
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "rank 1: sample 14 (shard-1) of epoch 7: the file is gone");
      EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
    }
    EXPECT_EQ(before, (std::vector<int64_t>{2, 3, 6, 7, 10, 11})) << workers << " workers";
    EXPECT_EQ(loader.position().consumed, 12);
    EXPECT_THROW(for ([[maybe_unused]] auto& batch : loader.rest()){}, DataError);
  }
}

TEST(LoaderWorkers, NameTheSamplesWhenTheCollateFunctionFails) {
  const auto collate = [](std::vector<int64_t> samples) -> at::Tensor {
    if (samples[0] == 6) throw DoNotRetryError("samples of different width");
    return at::scalar_tensor(samples[0]);
  };
  DataLoader loader(Failing{}, {.batch_size = 6, .num_workers = 1}, collate);
  try {
    for ([[maybe_unused]] auto& batch : loader) {
    }
    FAIL() << "no error";
  } catch (const DoNotRetryError& error) {  // keeps its type: retrying cannot help
    EXPECT_STREQ(error.what(),
                 "rank 0: the batch of sample 6 (shard-0), sample 7 (shard-0), sample 8 (shard-0), "
                 "sample 9 (shard-0) and 2 more of epoch 0: samples of different width");
  }
}

TEST(LoaderWorkers, SurviveErrorsUnderManySeeds) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    DataLoader loader(Failing{}, {.batch_size = 1 + static_cast<int64_t>(seed % 3),
                                  .shuffle = true,
                                  .seed = seed,
                                  .num_workers = static_cast<int>(seed % 5)});
    EXPECT_THROW(run(loader), DataError);
    EXPECT_FALSE(loader.core()->active());
    EXPECT_EQ(loader.epoch(), 0);
  }
}

// Reports whether gradients or autocast are enabled where the dataset computes.
struct Modes {
  int64_t size() const { return 4; }
  int64_t get(int64_t) const {
    const at::Tensor weight = at::ones({2, 2}).requires_grad_();
    const at::Tensor product = at::mm(weight, weight);
    return (product.requires_grad() ? 1 : 0) + (product.scalar_type() != at::kFloat ? 2 : 0);
  }
};

TEST(LoaderWorkers, ComputeWithoutGradientsAndAutocastWhateverTheLoopDoes) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  for (const int workers : {0, 2}) {
    DataLoader loader(Modes{}, {.batch_size = 2, .num_workers = workers});
    for (const Seen& seen : run(loader)) EXPECT_EQ(seen.batch, (std::vector<int64_t>{0, 0}));
  }
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(at::GradMode::is_enabled());
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
}

// A dataset in torch's style: get is not const, so threads must not share it.
struct TorchNumbers : torch::data::datasets::Dataset<TorchNumbers> {
  explicit TorchNumbers(std::shared_ptr<std::set<const void*>> own_places)
      : places(std::move(own_places)) {}
  torch::data::Example<> get(size_t index) override {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    places->insert(this);
    calls.push_back(index);
    const auto number = static_cast<int64_t>(index);
    return {at::scalar_tensor(number, at::kLong), at::scalar_tensor(-number, at::kLong)};
  }
  std::optional<size_t> size() const override { return 30; }
  std::shared_ptr<std::set<const void*>> places;
  std::vector<size_t> calls;
};

TEST(LoaderWorkers, GetACopyEachOfADatasetThatIsNotConst) {
  const auto places = std::make_shared<std::set<const void*>>();
  const auto dataset = std::make_shared<TorchNumbers>(places);
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 3});
  std::vector<int64_t> data;
  for (auto& batch : loader) {
    EXPECT_TRUE(batch.data.equal(-batch.target));
    for (const int64_t number : list(batch.data)) data.push_back(number);
  }
  EXPECT_EQ(data, range(30));
  EXPECT_GE(places->size(), 1u);
  EXPECT_LE(places->size(), 3u);
  EXPECT_EQ(places->count(dataset.get()), 0u);
}

TEST(LoaderWorkers, TakeTorchsMappedDatasetsAsTheyAre) {
  const auto places = std::make_shared<std::set<const void*>>();
  DataLoader loader(TorchNumbers(places).map(torch::data::transforms::Stack<>()),
                    {.batch_size = 16, .num_workers = 2});
  std::vector<int64_t> data;
  for (auto& batch : loader) {
    for (const int64_t number : list(batch.data)) data.push_back(number);
  }
  EXPECT_EQ(data, range(30));
}

}  // namespace
}  // namespace muster
