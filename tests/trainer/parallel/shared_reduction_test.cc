// Real processes that share memory.
#include "parallel/shared_reduction.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace muster {
namespace {

const SharedReduction::Patience kPatient = {std::chrono::minutes(1), nullptr};

std::unique_ptr<SharedReduction> alone(const SharedReduction::Patience& patience) {
  return std::make_unique<SharedReduction>(SharedMemory::create(SharedReduction::memory_bytes(2)),
                                           0, 2, patience);
}

// Runs `body` as ranks 1, 2, … in child processes and as rank 0 here; returns whether all returned
// true.
template <typename Body>
bool on_ranks(int world_size, const Body& body) {
  const size_t bytes = SharedReduction::memory_bytes(world_size);
  auto memory = SharedMemory::create(bytes);
  if (!memory) return false;
  std::vector<pid_t> children;
  for (int rank = 1; rank < world_size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool good = false;
      try {
        SharedReduction opened(SharedMemory::open(memory->name(), bytes), rank, world_size,
                               kPatient);
        good = body(opened, rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  SharedReduction own(std::move(memory), 0, world_size, kPatient);
  bool all = body(own, 0);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    all = all && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return all;
}

template <typename T>
bool sums_fit(SharedReduction& shared, int rank, int world_size, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i % 1000 + rank);
  shared.all_reduce(values.data(), count, SharedOperation::sum);
  for (size_t i = 0; i < count; ++i) {
    const auto expected = static_cast<T>(i % 1000 * world_size + world_size * (world_size - 1) / 2);
    if (values[i] != expected) return false;
  }
  return true;
}

class SharedReductionWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, SharedReductionWorlds, ::testing::Values(1, 2, 3, 5));

TEST_P(SharedReductionWorlds, SumsEveryTypeAndLength) {
  const int world_size = GetParam();
  EXPECT_TRUE(on_ranks(world_size, [&](SharedReduction& shared, int rank) {
    bool fit = true;
    for (const size_t count : {0, 1, 2, 17, 131'072, 131'073, 700'001}) {
      fit = fit && sums_fit<float>(shared, rank, world_size, count) &&
            sums_fit<double>(shared, rank, world_size, count) &&
            sums_fit<int32_t>(shared, rank, world_size, count) &&
            sums_fit<int64_t>(shared, rank, world_size, count);
    }
    return fit;
  }));
}

TEST_P(SharedReductionWorlds, KeepsCallsApartHoweverTheRanksRace) {
  const int world_size = GetParam();
  EXPECT_TRUE(on_ranks(world_size, [&](SharedReduction& shared, int rank) {
    for (int call = 0; call < 3'000; ++call) {
      int64_t value = call * 7 + rank;
      shared.all_reduce(&value, 1, call % 2 == 0 ? SharedOperation::max : SharedOperation::min);
      if (value != call * 7 + (call % 2 == 0 ? world_size - 1 : 0)) return false;
      int32_t sent = rank == call % world_size ? call : -1;
      shared.broadcast(&sent, sizeof(sent), call % world_size);
      if (sent != call) return false;
    }
    return true;
  }));
}

TEST_P(SharedReductionWorlds, BroadcastsMoreThanOneSlot) {
  const int world_size = GetParam();
  EXPECT_TRUE(on_ranks(world_size, [&](SharedReduction& shared, int rank) {
    const size_t bytes = 3 * SharedReduction::kSlotBytes + 5;
    const int root = world_size - 1;
    std::vector<unsigned char> data(bytes, 0);
    if (rank == root) {
      for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 31);
    }
    shared.broadcast(data.data(), bytes, root);
    for (size_t i = 0; i < bytes; ++i) {
      if (data[i] != static_cast<unsigned char>(i * 31)) return false;
    }
    return true;
  }));
}

TEST(SharedReduction, GivesTheSameBitsToAllRanks) {
  EXPECT_TRUE(on_ranks(3, [](SharedReduction& shared, int rank) {
    std::vector<float> values(1000), expected(1000, 0.0f);
    for (int other = 0; other < 3; ++other) {
      for (size_t i = 0; i < values.size(); ++i) {
        const float value = std::sin(static_cast<float>(i) + other) * std::pow(10.0f, other);
        expected[i] = other == 0 ? value : expected[i] + value;
        if (other == rank) values[i] = value;
      }
    }
    shared.all_reduce(values.data(), values.size(), SharedOperation::sum);
    return values == expected;
  }));
}

TEST(SharedReduction, GivesUpOnALostRankAndAtTheDeadline) {
  int asked = 0;
  const auto losing = alone({std::chrono::minutes(5), [&] {
                               return std::string(++asked == 2 ? "Connection closed by peer" : "");
                             }});
  float value = 1;
  try {
    losing->all_reduce(&value, 1, SharedOperation::sum);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "rank 0 waits for rank 1 in a collective: Connection closed by peer");
  }
  const auto late = alone({std::chrono::milliseconds(1), nullptr});
  EXPECT_THROW(late->all_reduce(&value, 1, SharedOperation::sum), std::runtime_error);
}

// Whichever rank has it, and wherever it is in a block.
TEST(SharedReduction, KeepsNaNInSumsMaximaAndMinima) {
  for (const auto operation : {SharedOperation::sum, SharedOperation::max, SharedOperation::min}) {
    EXPECT_TRUE(on_ranks(2, [&](SharedReduction& shared, int rank) {
      std::vector<float> values(35, static_cast<float>(rank));
      values[rank == 0 ? 1 : 34] = std::nanf("");
      shared.all_reduce(values.data(), values.size(), operation);
      return std::isnan(values[1]) && std::isnan(values[34]) && !std::isnan(values[2]);
    }));
  }
}

TEST(SharedMemory, IsNotFoundUnderAnotherNameOrOfAnotherSize) {
  auto made = SharedMemory::create(5'000);
  ASSERT_TRUE(made);
  EXPECT_FALSE(SharedMemory::open("", 5'000));
  EXPECT_FALSE(SharedMemory::open(made->name() + "0", 5'000));
  EXPECT_FALSE(SharedMemory::open(made->name(), 5'001));
  EXPECT_TRUE(SharedMemory::open(made->name(), 5'000));
  made->unlink();
  EXPECT_FALSE(SharedMemory::open(made->name(), 5'000));
}

}  // namespace
}  // namespace muster
