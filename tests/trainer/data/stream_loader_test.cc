// Streams in a DataLoader: the last batch, resuming, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "data/loader_world.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

TEST(StreamLoader, SplitsLikeAMapStyleDatasetOfTheSameSamples) {
  for (const auto& configuration : complete_configurations()) {
    for (int world_size = 1; world_size <= 4; ++world_size) {
      for (const int64_t size : {0, 1, 5, 12, 23}) {
        for (const bool drop_last : {false, true}) {
          const DataLoaderOptions options{.batch_size = 3, .drop_last = drop_last};
          const auto streams = world_of(NumberStream{size}, options, world_size, configuration);
          const auto maps = world_of(Numbers{size}, options, world_size, configuration);
          for (size_t rank = 0; rank < streams.size(); ++rank) {
            const std::vector<Seen> expected = run(maps[rank]);
            const std::vector<Seen> seen = run(streams[rank]);
            ASSERT_EQ(seen.size(), expected.size()) << size << " on " << world_size;
            for (size_t i = 0; i < seen.size(); ++i) {
              ASSERT_EQ(seen[i].batch, expected[i].batch) << size << " on " << world_size;
              ASSERT_EQ(seen[i].last, expected[i].last);
              ASSERT_EQ(seen[i].remainder, expected[i].remainder);
              ASSERT_EQ(seen[i].position, expected[i].position);
              ASSERT_EQ(seen[i].batches_left, seen[i].last ? 1 : -1);
            }
            ASSERT_EQ(streams[rank].epoch(), 1);
          }
        }
      }
    }
  }
}

TEST(StreamLoader, ResumesAtEveryPositionOnAnotherWorldSize) {
  for (const auto& configuration : complete_configurations()) {
    for (int world_size = 1; world_size <= 4; ++world_size) {
      for (int64_t consumed = 0; consumed <= 23; ++consumed) {
        const auto streams = world_of(NumberStream{23}, {.batch_size = 3, .num_workers = 1},
                                      world_size, configuration);
        const auto maps = world_of(Numbers{23}, {.batch_size = 3}, world_size, configuration);
        for (size_t rank = 0; rank < streams.size(); ++rank) {
          const DataPosition position{.seed = 0, .epoch = 2, .consumed = consumed};
          streams[rank].set_position(position);
          maps[rank].set_position(position);
          const std::vector<Seen> expected = run(maps[rank]);
          const std::vector<Seen> seen = run(streams[rank]);
          ASSERT_EQ(seen.size(), expected.size());
          for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i].batch, expected[i].batch);
        }
      }
    }
  }
}

TEST(StreamLoader, DividesItsEndAsAccelerateDoesWhichDispatchesStreams) {
  const auto streams =
      world_of(NumberStream{10}, {.batch_size = 4}, 2, {.accelerate_last_step = true});
  const auto maps = world_of(Numbers{10}, {.batch_size = 4}, 2, {.accelerate_last_step = true});
  EXPECT_EQ(run(streams[1]).back().batch, (std::vector<int64_t>{9}));
  EXPECT_EQ(run(maps[1]).back().batch, (std::vector<int64_t>{2, 3, 4, 5}));
}

TEST(StreamLoader, KeepsItsOrderWithSeveralWorkers) {
  for (int workers = 1; workers <= 4; ++workers) {
    DataLoader loader(NumberStream{100}, {.batch_size = 3, .num_workers = workers});
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> all;
      for (const Seen& seen : run(loader)) {
        all.insert(all.end(), seen.batch.begin(), seen.batch.end());
      }
      EXPECT_EQ(all, range(100));
    }
  }
}

TEST(StreamLoader, ReportsAPositionPastTheEnd) {
  DataLoader loader(NumberStream{10}, {.batch_size = 2});
  loader.set_position({.seed = 0, .epoch = 1, .consumed = 11});
  try {
    run(loader);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("the stream ended after 10 samples"),
              std::string::npos)
        << error.what();
  }
}

// Skips samples without reading them.
struct Skipping : NumberStream {
  std::shared_ptr<int64_t> skipped = std::make_shared<int64_t>(0);
  int64_t skip(int64_t count) {
    const int64_t can = std::min(count, this->count - next_number);
    next_number += can;
    *skipped += can;
    return can;
  }
};

TEST(StreamLoader, LetsTheStreamSkipWhatWasConsumed) {
  Skipping stream;
  stream.count = 50;
  DataLoader loader(stream, {.batch_size = 5});
  EXPECT_EQ(run(skip_first_batches(loader, 4))[0].batch,
            (std::vector<int64_t>{20, 21, 22, 23, 24}));
  EXPECT_EQ(*stream.skipped, 20);
}

struct FailingStream : NumberStream {
  std::optional<int64_t> next() {
    if (next_number == 7) throw std::runtime_error("no connection");
    return NumberStream::next();
  }
  std::string describe(int64_t number) const { return "part " + std::to_string(number); }
};

TEST(StreamLoader, FailsAtTheBatchThatNeedsTheSample) {
  for (const int workers : {0, 1, 3}) {
    FailingStream stream;
    stream.count = 20;
    DataLoader loader(stream, {.batch_size = 2, .num_workers = workers});
    int64_t batches = 0;
    try {
      for ([[maybe_unused]] auto& batch : loader) {
        ++batches;
        EXPECT_FALSE(loader.end_of_dataloader());
      }
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "rank 0: sample 7 (part 7) of epoch 0: no connection");
    }
    EXPECT_EQ(batches, 3);
    EXPECT_EQ(loader.position().consumed, 6);
  }
}

}  // namespace
}  // namespace muster
