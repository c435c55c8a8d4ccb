// Batch sizes found by trial in one process, and what counts as out of memory.
#include "muster/collectives/executable_batch_size.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <new>

#include "muster/base/errors.h"

namespace muster {
namespace {

TEST(ExecutableBatchSize, ShrinksByATenthUntilItFits) {
  std::vector<int64_t> tried;
  const int64_t found = find_executable_batch_size(
      [&](int64_t batch_size) {
        tried.push_back(batch_size);
        if (batch_size > 90) throw std::bad_alloc();
      },
      {.starting_batch_size = 128});
  EXPECT_EQ(found, 82);
  EXPECT_EQ(tried, (std::vector<int64_t>{128, 115, 103, 92, 82}));
}

TEST(ExecutableBatchSize, GivesUpAtZero) {
  int tries = 0;
  try {
    find_executable_batch_size(
        [&](int64_t) {
          ++tries;
          throw std::bad_alloc();
        },
        {.starting_batch_size = 4});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("from 4 down to 1"), std::string::npos);
  }
  EXPECT_EQ(tries, 4);
}

TEST(ExecutableBatchSize, TakesTheCallersWayToShrink) {
  const int64_t found = find_executable_batch_size(
      [](int64_t batch_size) {
        if (batch_size > 10) throw std::bad_alloc();
      },
      {.starting_batch_size = 64, .reduce_batch_size = [](int64_t size) { return size / 2; }});
  EXPECT_EQ(found, 8);
  EXPECT_THROW(find_executable_batch_size([](int64_t) { throw std::bad_alloc(); },
                                          {.reduce_batch_size = [](int64_t size) { return size; }}),
               std::invalid_argument);
  EXPECT_THROW(find_executable_batch_size([](int64_t) {}, {.starting_batch_size = 0}),
               std::invalid_argument);
}

TEST(ExecutableBatchSize, LetsOtherExceptionsPass) {
  EXPECT_THROW(find_executable_batch_size([](int64_t) { throw std::out_of_range("a bug"); }),
               std::out_of_range);
  EXPECT_THROW(find_executable_batch_size([](int64_t) { throw 7; }), int);
}

TEST(ExecutableBatchSize, KnowsWhatLibTorchThrowsWhenMemoryRunsOut) {
  // Larger than any address space.
  const int64_t found = find_executable_batch_size(
      [](int64_t batch_size) {
        if (batch_size > 60) at::empty({batch_size, int64_t{1} << 50}, at::kByte);
      },
      {.starting_batch_size = 64});
  EXPECT_EQ(found, 57);
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("file not found")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. x")));
}

}  // namespace
}  // namespace muster
