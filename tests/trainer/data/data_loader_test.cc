// Which samples a loop over a DataLoader gets, on every rank and after every resume.
#include "muster/data/data_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "data/loader_world.h"

namespace muster {
namespace {

std::vector<int64_t> sorted(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(DataLoader, GivesEverySampleOnceAnEpochOnEveryWorldSize) {
  for (const auto& configuration : complete_configurations()) {
    for (int world_size = 1; world_size <= 5; ++world_size) {
      for (const int64_t size : {1, 2, 7, 24, 61}) {
        const auto ranks = world_of(Numbers{size}, {.batch_size = 3, .shuffle = true, .seed = 5},
                                    world_size, configuration);
        for (int epoch = 0; epoch < 2; ++epoch) {
          ASSERT_EQ(sorted(joined(global_steps(ranks))), range(size))
              << "size " << size << " on " << world_size << " ranks, epoch " << epoch;
        }
        for (const auto& loader : ranks) {
          ASSERT_EQ(loader.position(), (DataPosition{.seed = 5, .epoch = 2, .consumed = 0}));
        }
      }
    }
  }
}

TEST(DataLoader, ResumesAtEveryPositionOnAnotherWorldSizeAtTheNextSample) {
  constexpr int64_t kSize = 37;
  for (const auto& configuration : complete_configurations()) {
    for (int before = 1; before <= 5; ++before) {
      const auto first =
          world_of(Numbers{kSize}, {.batch_size = 2, .shuffle = true}, before, configuration);
      const auto steps = global_steps(first);
      const std::vector<Seen> positions = run(
          world_of(Numbers{kSize}, {.batch_size = 2, .shuffle = true}, before, configuration)[0]);
      for (int after = 1; after <= 5; ++after) {
        const auto second =
            world_of(Numbers{kSize}, {.batch_size = 3, .shuffle = true}, after, configuration);
        for (size_t step = 0; step < positions.size(); ++step) {
          for (const auto& loader : second) loader.set_position(positions[step].position);
          std::vector<int64_t> all =
              joined({steps.begin(), steps.begin() + static_cast<int64_t>(step) + 1});
          const std::vector<int64_t> rest = joined(global_steps(second));
          all.insert(all.end(), rest.begin(), rest.end());
          ASSERT_EQ(all, joined(steps))
              << before << " ranks, then after step " << step << " " << after << " ranks";
        }
      }
    }
  }
}

TEST(DataLoader, SplitsLikeTheShardedSampler) {
  for (int world_size = 1; world_size <= 4; ++world_size) {
    const auto ranks =
        world_of(Numbers{50}, {.batch_size = 4, .shuffle = true, .seed = 9}, world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      ShardedSampler sampler(
          {.dataset_size = 50, .batch_size = 4, .seed = 9, .rank = rank, .world_size = world_size});
      for (int epoch = 0; epoch < 3; ++epoch) {
        for (const Seen& seen : run(ranks[static_cast<size_t>(rank)])) {
          ASSERT_EQ(seen.batch, *sampler.next_batch());
          ASSERT_EQ(seen.position, sampler.position());
        }
        ASSERT_FALSE(sampler.next_batch());
      }
    }
  }
}

TEST(DataLoader, DropsTheShortLastStepWhenAsked) {
  const auto ranks = world_of(Numbers{10}, {.batch_size = 2, .drop_last = true}, 3);
  EXPECT_EQ(joined(global_steps(ranks)), range(6));
  EXPECT_EQ(ranks[2].size(), 1);
  const auto none = world_of(Numbers{5}, {.batch_size = 2, .drop_last = true}, 3);
  EXPECT_TRUE(global_steps(none).empty());
  EXPECT_EQ(none[0].size(), 0);
}

TEST(DataLoader, KnowsTheLastBatchAndItsRealSamples) {
  const auto ranks = world_of(Numbers{14}, {.batch_size = 2}, 3);
  for (const auto& loader : ranks) {
    const std::vector<Seen> seen = run(loader);
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(loader.size(), 3);
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].batches_left, static_cast<int64_t>(3 - i));
      EXPECT_EQ(seen[i].last, i == 2);
      EXPECT_EQ(seen[i].remainder, i == 2 ? 2 : -1);
      EXPECT_EQ(seen[i].batch.size(), i == 2 ? 1u : 2u);
    }
    EXPECT_FALSE(loader.end_of_dataloader());
    EXPECT_EQ(loader.batches_left(), 0);
    EXPECT_EQ(loader.remainder(), -1);
  }
  EXPECT_EQ(ranks[0].dataset_size(), 14);
  EXPECT_EQ(ranks[0].total_batch_size(), 6);
}

TEST(DataLoader, GivesUnevenRanksOneBatchFewerOnlyAtTheEnd) {
  const auto ranks = world_of(Numbers{10}, {.batch_size = 2}, 4, {.even_batches = false});
  for (int rank = 0; rank < 4; ++rank) {
    const auto& loader = ranks[static_cast<size_t>(rank)];
    const std::vector<Seen> seen = run(loader);
    ASSERT_EQ(seen.size(), rank < 2 ? 2u : 1u);
    EXPECT_EQ(seen.size(), static_cast<size_t>(loader.size()));
    EXPECT_TRUE(seen.back().last);
    EXPECT_EQ(seen.front().batches_left, static_cast<int64_t>(seen.size()));
    EXPECT_EQ(seen.front().remainder, -1);  // the last step is full, so it has no remainder
    EXPECT_EQ(loader.epoch(), 1);
  }
}

TEST(DataLoader, SplitsItsBatchesBetweenTheRanksWhenAsked) {
  const auto ranks = world_of(Numbers{8}, {.batch_size = 4}, 2, {.split_batches = true});
  EXPECT_EQ(run(ranks[0])[1].batch, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(run(ranks[1])[0].batch, (std::vector<int64_t>{2, 3}));
  EXPECT_THROW(world_of(Numbers{8}, {.batch_size = 4}, 3, {.split_batches = true}),
               std::invalid_argument);
}

TEST(DataLoader, ShufflesEachEpochDifferentlyAndEachPassOverItAlike) {
  DataLoader loader(Numbers{100}, {.batch_size = 10, .shuffle = true, .seed = 3});
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> order;
    for (const Seen& seen : run(loader)) {
      order.insert(order.end(), seen.batch.begin(), seen.batch.end());
    }
    EXPECT_TRUE(orders.insert(order).second);
    loader.set_position({.seed = 3, .epoch = epoch, .consumed = 0});
    EXPECT_EQ(run(loader)[0].batch, std::vector<int64_t>(order.begin(), order.begin() + 10));
  }
}

TEST(DataLoader, StartsTheEpochAgainAfterABreak) {
  DataLoader loader(Numbers{10}, {.batch_size = 2});
  for (int round = 0; round < 3; ++round) {
    for (auto& batch : loader) {
      EXPECT_EQ(list(batch), (std::vector<int64_t>{0, 1}));
      break;
    }
    EXPECT_EQ(loader.position().consumed, 2);
    EXPECT_EQ(loader.epoch(), 0);
    EXPECT_FALSE(loader.core()->active());
  }
  EXPECT_EQ(run(loader).size(), 5u);
  EXPECT_EQ(loader.epoch(), 1);
}

TEST(DataLoader, ContinuesAfterABreakWithTheRest) {
  DataLoader loader(Numbers{10}, {.batch_size = 2});
  int64_t taken = 0;
  for (auto& batch : loader) {
    taken += batch.numel();
    if (taken == 4) break;
  }
  std::vector<int64_t> rest;
  for (auto& batch : loader.rest()) {
    for (const int64_t number : list(batch)) rest.push_back(number);
  }
  EXPECT_EQ(rest, (std::vector<int64_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(run(loader).size(), 5u);
  EXPECT_EQ(loader.epoch(), 2);
}

TEST(DataLoader, RefusesALoopInsideAnotherOverTheSameLoader) {
  DataLoader loader(Numbers{10}, {.batch_size = 2});
  auto outer = loader.begin();
  EXPECT_EQ(run(loader).size(), 5u);
  EXPECT_EQ(list(*outer), (std::vector<int64_t>{0, 1}));  // what it has stays its own
  EXPECT_THROW(++outer, std::logic_error);
}

TEST(DataLoader, KeepsTheResumePositionWhenTheLoopSetsTheSameEpoch) {
  DataLoader loader(Numbers{10}, {.batch_size = 2});
  loader.set_position({.seed = 0, .epoch = 3, .consumed = 6});
  loader.set_epoch(3);
  EXPECT_EQ(run(loader).size(), 2u);
  loader.set_epoch(9);
  EXPECT_EQ(run(loader).size(), 5u);
  EXPECT_EQ(loader.epoch(), 10);
  EXPECT_THROW(loader.set_epoch(-1), std::invalid_argument);
}

TEST(DataLoader, EndsAnEpochThatWasSavedAtItsEndBeforeTheNextOne) {
  DataLoader loader(Numbers{10}, {.batch_size = 2});
  loader.set_position({.seed = 0, .epoch = 1, .consumed = 10});
  EXPECT_TRUE(run(loader).empty());
  EXPECT_EQ(loader.epoch(), 2);
  EXPECT_EQ(run(loader).size(), 5u);
}

TEST(DataLoader, SkipsTheFirstBatchesOfOnePassOnly) {
  const auto ranks = world_of(Numbers{20}, {.batch_size = 2}, 2);
  const auto skipped = skip_first_batches(ranks[1], 3);
  EXPECT_EQ(run(skipped)[0].batch, (std::vector<int64_t>{14, 15}));
  EXPECT_EQ(run(ranks[1]).size(), 5u);
  EXPECT_TRUE(run(skip_first_batches(ranks[1], 100)).empty());
  EXPECT_THROW(skip_first_batches(ranks[1], -1), std::invalid_argument);
  ranks[0].set_position({.seed = 0, .epoch = 0, .consumed = 4});
  EXPECT_EQ(run(skip_first_batches(ranks[0], 1))[0].batch, (std::vector<int64_t>{8, 9}));
}

TEST(DataLoader, TakesTheOrderOfACustomSampler) {
  const auto order = [](int64_t epoch) {
    return epoch == 0 ? std::vector<int64_t>{4, 4, 2} : std::vector<int64_t>{0, 1, 3};
  };
  DataLoader loader(Numbers{5}, {.batch_size = 2, .order = order});
  EXPECT_EQ(loader.dataset_size(), 3);
  EXPECT_EQ(run(loader)[0].batch, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(run(loader)[1].batch, (std::vector<int64_t>{3}));
  DataLoader outside(Numbers{4}, {.batch_size = 2, .order = order});
  EXPECT_THROW(run(outside), std::invalid_argument);
  const auto growing = [](int64_t epoch) { return range(epoch + 1); };
  DataLoader uneven(Numbers{5}, {.order = growing});
  EXPECT_EQ(run(uneven).size(), 1u);
  EXPECT_THROW(run(uneven), std::invalid_argument);
}

TEST(DataLoader, ReportsPassesAndTheTimeThatTheLoopWaited) {
  DataLoader loader(Numbers{5}, {.batch_size = 2});
  std::vector<bool> activity;
  int waits = 0;
  loader.core()->attach({.on_wait = [&](double seconds) { waits += seconds >= 0 ? 1 : 1000; },
                         .on_active =
                             [&](const LoaderCore& core, bool active) {
                               EXPECT_EQ(core.active(), active);
                               activity.push_back(active);
                             }});
  run(loader);
  for ([[maybe_unused]] auto& batch : loader) break;
  loader.begin();
  EXPECT_EQ(activity, (std::vector<bool>{true, false, true, false, true, false}));
  EXPECT_EQ(waits, 5);
}

TEST(DataLoader, NamesTheOptionThatIsWrong) {
  const auto refused = [](const DataLoaderOptions& options) {
    try {
      DataLoader loader(Numbers{5}, options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({.batch_size = 0}).find("batch_size is 0"), std::string::npos);
  EXPECT_NE(refused({.num_workers = -1}).find("num_workers is -1"), std::string::npos);
  EXPECT_NE(refused({.prefetch_factor = 0}).find("prefetch_factor"), std::string::npos);
  EXPECT_NE(refused({.shuffle = true, .order = [](int64_t) { return range(5); }}).find("order"),
            std::string::npos);
  EXPECT_THROW(DataLoader(NumberStream{5}, {.shuffle = true}), std::invalid_argument);
  DataLoader loader(Numbers{5});
  EXPECT_THROW(loader.core()->attach({.rank = 2, .world_size = 2}), std::invalid_argument);
  EXPECT_THROW(
      loader.core()->attach({.world_size = 2, .configuration = {.dispatch_batches = true}}),
      std::invalid_argument);
  EXPECT_THROW(loader.set_position({.seed = 0, .epoch = 0, .consumed = 6}), std::invalid_argument);
}

// A dataset whose sample is its random seed.
struct Augmented {
  int64_t size() const { return 20; }
  std::pair<int64_t, int64_t> get(int64_t index, uint64_t random_seed) const {
    return {index, static_cast<int64_t>(random_seed >> 1)};
  }
};

TEST(DataLoader, GivesASampleTheSameRandomSeedOnAnyWorldSizeAndWorker) {
  std::map<int64_t, int64_t> seeds;
  std::set<int64_t> different;
  for (int world_size = 1; world_size <= 3; ++world_size) {
    const auto ranks = world_of(
        Augmented{}, {.batch_size = 2, .shuffle = true, .num_workers = world_size - 1}, world_size);
    for (const auto& loader : ranks) {
      for (auto& [indices, numbers] : loader) {
        for (size_t i = 0; i < list(indices).size(); ++i) {
          const int64_t number = list(numbers)[i];
          EXPECT_EQ(seeds.emplace(list(indices)[i], number).first->second, number);
          different.insert(number);
        }
      }
    }
  }
  EXPECT_EQ(seeds.size(), 20u);
  EXPECT_EQ(different.size(), 20u);
  DataLoader next_epoch(Augmented{}, {.batch_size = 20});
  next_epoch.set_epoch(1);
  EXPECT_NE(list((*next_epoch.begin()).second)[3], seeds[3]);
}

}  // namespace
}  // namespace muster
