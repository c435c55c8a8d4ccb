// Compares our index lists with those of Accelerate's own classes, in a Python process.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "data/loader_world.h"
#include "support/child_process.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

struct Case {
  int64_t size;
  int64_t batch_size;
  int world_size;
  bool split_batches, even_batches, drop_last, stream;
};

// The numbers of `order`, as a stream.
struct ListStream {
  std::vector<int64_t> order;
  size_t place = 0;
  void reset(int64_t) { place = 0; }
  std::optional<int64_t> next() {
    if (place == order.size()) return std::nullopt;
    return order[place++];
  }
};

template <typename Dataset>
std::vector<std::vector<std::vector<int64_t>>> batches_of(const Dataset& dataset,
                                                          const DataLoaderOptions& options,
                                                          const Case& one) {
  std::vector<std::vector<std::vector<int64_t>>> ranks;
  for (const auto& loader : world_of(dataset, options, one.world_size,
                                     {.split_batches = one.split_batches,
                                     .dispatch_batches = false,
                                     .even_batches = one.even_batches,
                                     .accelerate_last_step = true})) {
    ranks.emplace_back();
    for (const Seen& seen : run(loader)) ranks.back().push_back(seen.batch);
  }
  return ranks;
}

nlohmann::json run_case(const Case& one, std::mt19937_64& random) {
  std::vector<int64_t> order = range(one.size);
  std::shuffle(order.begin(), order.end(), random);
  DataLoaderOptions options{.batch_size = one.batch_size, .drop_last = one.drop_last};
  nlohmann::json result = {{"order", order},
                           {"batch_size", one.batch_size},
                           {"world_size", one.world_size},
                           {"split_batches", one.split_batches},
                           {"even_batches", one.even_batches},
                           {"drop_last", one.drop_last},
                           {"stream", one.stream}};
  if (one.stream) {
    result["ranks"] = batches_of(ListStream{order}, options, one);
  } else {
    options.order = [order](int64_t) { return order; };
    result["ranks"] = batches_of(Numbers{one.size}, options, one);
  }
  return result;
}

TEST(AccelerateParity, HasTheIndexListsOfItsShardsAndSamplerForEverySizeAndFlag) {
  std::mt19937_64 random(7);
  nlohmann::json cases = nlohmann::json::array();
  for (int world_size = 1; world_size <= 5; ++world_size) {
    for (int64_t batch_size = 1; batch_size <= 6; ++batch_size) {
      for (int64_t size = 0; size <= 2 * batch_size * world_size + 1; ++size) {
        for (int flags = 0; flags < 16; ++flags) {
          const Case one{size,
                         batch_size,
                         world_size,
                         (flags & 1) != 0,
                         (flags & 2) != 0,
                         (flags & 4) != 0,
                         (flags & 8) != 0};
          const bool splits = !one.split_batches || batch_size % world_size == 0;
          // Accelerate's stream shard does not support even_batches=False.
          if (splits && (one.even_batches || !one.stream)) cases.push_back(run_case(one, random));
        }
      }
    }
  }
  nlohmann::json orders = nlohmann::json::array();
  for (const int64_t size : {1, 2, 100, 5'000}) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      orders.push_back(
          {{"seed", 40}, {"epoch", epoch}, {"order", seedable_random_order(size, 40)(epoch)}});
    }
  }
  const TemporaryDirectory directory;
  std::ofstream(directory / "cases.json")
      << nlohmann::json{{"cases", cases}, {"orders", orders}}.dump();
  ChildProcess python({TestPython(), TestSource("tests/trainer/data/accelerate_shards.py"),
                       directory / "cases.json"},
                      {{"OMP_NUM_THREADS", "1"}});
  const auto result = python.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find(" 0 lists differ"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace muster
