// Means over steps and ranks: arithmetic alone, and over Gloo with ranks as threads.
#include "tracking/metric_accumulator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "muster/base/errors.h"

namespace muster {
namespace {

std::map<std::string, double> as_map(const MetricMeans& means) {
  return {means.begin(), means.end()};
}
using Means = std::map<std::string, double>;

TEST(MetricAccumulator, WeighsTheValuesOfItsSteps) {
  MetricAccumulator means({.every = 3});
  means.add("loss", torch::tensor(1.0f), 16);
  means.add("lr", 0.5);
  EXPECT_TRUE(means.end_step().empty());
  means.add("loss", torch::tensor({2.0}, at::kDouble), 16);
  EXPECT_TRUE(means.end_step().empty());
  means.add("loss", torch::tensor(int64_t{5}), 8);
  means.add("half", torch::tensor(0.25f).to(at::kHalf));
  EXPECT_EQ(as_map(means.end_step()), (Means{{"loss", 88.0 / 40}, {"lr", 0.5}, {"half", 0.25}}));
  means.add("loss", 7.0);
  EXPECT_EQ(as_map(means.reduce()), (Means{{"loss", 7}}));  // nothing from the previous window
  EXPECT_TRUE(means.reduce().empty());
}

TEST(MetricAccumulator, DoesNotSeeLaterChangesOfAValue) {
  MetricAccumulator means({});
  at::Tensor loss = torch::tensor(1.0f).requires_grad_();
  means.add("loss", loss);
  loss.data().fill_(100);
  EXPECT_EQ(as_map(means.end_step()), (Means{{"loss", 1}}));
}

TEST(MetricAccumulator, KeepsWhatIsNotFinite) {
  MetricAccumulator means({});
  means.add("loss", NAN);
  means.add("peak", INFINITY);
  const Means found = as_map(means.end_step());
  EXPECT_TRUE(std::isnan(found.at("loss")));
  EXPECT_EQ(found.at("peak"), INFINITY);
}

TEST(MetricAccumulator, RefusesWhatIsNotAScalar) {
  MetricAccumulator means({});
  EXPECT_THROW(means.add("loss", torch::zeros({2})), std::invalid_argument);
  EXPECT_THROW(means.add("loss", at::Tensor()), std::invalid_argument);
  EXPECT_THROW(MetricAccumulator({.every = 0}), std::invalid_argument);
}

TEST(MetricAccumulator, SumsOnTheDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  MetricAccumulator means({.every = 2, .device = at::kCUDA});
  at::Tensor loss =
      torch::tensor({3.0f}, at::TensorOptions().device(at::kCUDA).requires_grad(true));
  means.add("loss", loss, 2);
  means.add("lr", 0.5);
  EXPECT_TRUE(means.end_step().empty());
  loss.data().fill_(6);
  means.add("loss", loss.detach().to(at::kBFloat16), 1);
  means.add("loss", 9.0, 1);  // the same name from the host
  EXPECT_EQ(as_map(means.end_step()), (Means{{"loss", 5.25}, {"lr", 0.5}}));
  means.add("loss", loss);
  EXPECT_EQ(as_map(means.reduce()), (Means{{"loss", 6}}));
}

// One Gloo rank, in its own thread.
struct Rank {
  int index;
  c10d::ProcessGroupGloo& group;
  int reductions = 0;

  at::Tensor sum(at::Tensor tensor) {
    ++reductions;
    std::vector<at::Tensor> tensors = {tensor};
    group.allreduce(tensors)->wait();
    return tensor;
  }
  std::vector<std::string> gather(const std::string& text, int world_size) {
    at::Tensor bytes = torch::zeros({4096}, at::kByte);
    std::memcpy(bytes.data_ptr(), text.data(), text.size());
    std::vector<at::Tensor> own = {bytes};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int i = 0; i < world_size; ++i) all[0].push_back(torch::empty_like(bytes));
    group.allgather(all, own)->wait();
    std::vector<std::string> texts;
    for (const at::Tensor& each : all[0]) {
      texts.emplace_back(static_cast<const char*>(each.data_ptr()));
    }
    return texts;
  }
};

// Runs body once for each rank; the first exception of each rank is the result.
std::vector<std::string> on_ranks(int world_size, const std::function<void(Rank&)>& body) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(world_size);
  std::vector<std::thread> threads;
  for (int index = 0; index < world_size; ++index) {
    threads.emplace_back([&, index] {
      try {
        auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(30));
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
        c10d::ProcessGroupGloo group(store, index, world_size, options);
        Rank rank{index, group};
        body(rank);
      } catch (const std::exception& error) {
        errors[index] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

MetricAccumulatorOptions options_of(Rank& rank, int world_size, int every = 1) {
  return {.every = every,
          .sum_over_ranks = [&rank](at::Tensor tensor) { return rank.sum(tensor); },
          .gather_texts = [&rank, world_size](
                              const std::string& text) { return rank.gather(text, world_size); }};
}

TEST(MetricAccumulator, TakesTheWeightedMeanOverTheRanksInOneReduction) {
  const auto errors = on_ranks(3, [](Rank& rank) {
    MetricAccumulator means(options_of(rank, 3, 2));
    for (int step = 0; step < 2; ++step) {
      means.add("loss", torch::tensor(1.0f + rank.index), 10 - rank.index);
      means.add("accuracy", 0.5 * step);
      const MetricMeans found = means.end_step();
      if (step == 0) {
        EXPECT_TRUE(found.empty());
        continue;
      }
      EXPECT_EQ(as_map(found), (Means{{"loss", (10.0 + 18 + 24) / 27}, {"accuracy", 0.25}}));
    }
    EXPECT_EQ(rank.reductions, 1);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(MetricAccumulator, AgreesWhenRanksHaveOtherNames) {
  const auto errors = on_ranks(3, [](Rank& rank) {
    MetricAccumulator means(options_of(rank, 3));
    // Rank 2 has no data left in the first round; the others log names in a different order.
    if (rank.index == 0) means.add("a", 1.0);
    if (rank.index <= 1) means.add("b", 2.0 + rank.index);
    if (rank.index == 1) means.add("a", 3.0);
    EXPECT_EQ(as_map(means.end_step()), (Means{{"a", 2}, {"b", 2.5}}));
    const int before = rank.reductions;
    means.add("b", 4.0);
    EXPECT_EQ(as_map(means.end_step()), (Means{{"b", 4}}));
    EXPECT_EQ(rank.reductions, before + 1);  // the agreement lasts
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(MetricAccumulator, TakesMoreNamesThanFitIntoTheFirstReduction) {
  const auto errors = on_ranks(2, [](Rank& rank) {
    MetricAccumulator means(options_of(rank, 2));
    // One rank has 70 names, the other 60: both reductions must still have equal sizes.
    for (int i = 0; i < 70 - 10 * rank.index; ++i) means.add("m" + std::to_string(i), 1.0 * i);
    const Means found = as_map(means.end_step());
    EXPECT_EQ(found.size(), 70u);
    for (int i = 0; i < 70; ++i) EXPECT_EQ(found.at("m" + std::to_string(i)), i);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(MetricAccumulator, ThrowsOnAllRanksIfTheNamesDiffer) {
  const auto errors = on_ranks(2, [](Rank& rank) {
    MetricAccumulatorOptions options = options_of(rank, 2);
    options.gather_texts = nullptr;
    MetricAccumulator means(options);
    means.add(rank.index == 0 ? "loss" : "lost", 1.0);
    means.end_step();
  });
  EXPECT_NE(errors[0].find("this one has: loss"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("this one has: lost"), std::string::npos) << errors[1];
}

}  // namespace
}  // namespace muster
