// What a worker may claim to have measured.
#include "coordinator/gates/sample_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "common/problem.h"

namespace muster::coordinator {
namespace {

SampledPart Part() {
  return {.first_rank = 4, .ranks = 2, .device_kind = "gpu", .device_indexes = {1, 3}};
}

v1::SampleBatch Valid() {
  v1::SampleBatch batch;
  batch.set_job(1);
  batch.set_node("node1");
  batch.set_time_ms(1'700'000'000'000);
  batch.set_interval_ms(1'000);
  for (const uint32_t rank : {4, 5}) {
    v1::RankSample& sample = *batch.add_ranks();
    sample.set_rank(rank);
    sample.set_cpu_cores(1.5);
    sample.set_resident_bytes(1 << 30);
    sample.add_open_devices("gpu:0");  // not held, but opened
  }
  for (const char* name : {"gpu:1", "gpu:3"}) {
    v1::DeviceSample& sample = *batch.add_devices();
    sample.set_device(name);
    sample.set_utilization(0.5);
    sample.add_throttled_by("power");
  }
  return batch;
}

TEST(SampleChecksTest, AnHonestBatchPasses) {
  const absl::Status status = CheckSampleBatch(Valid(), Part());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(SampleChecksTest, APartIsReadFromTheRecordWhateverTheOrderOfItsDevices) {
  v1::NodePart part;
  part.set_first_rank(4);
  part.set_local_world_size(2);
  part.set_device_kind("gpu");
  part.add_device_indexes(3);
  part.add_device_indexes(1);
  EXPECT_TRUE(CheckSampleBatch(Valid(), SampledPartOf(part)).ok());
}

TEST(SampleChecksTest, WhatCannotBeTrueIsRefusedWithACode) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const std::function<void(v1::SampleBatch&)> lies[] = {
      [](auto& b) { b.set_time_ms(0); },
      [](auto& b) { b.set_time_ms(INT64_MAX); },
      [](auto& b) { b.set_interval_ms(UINT32_MAX); },
      [](auto& b) { b.mutable_ranks(0)->set_rank(3); },
      [](auto& b) { b.mutable_ranks(1)->set_rank(6); },
      [](auto& b) { b.mutable_ranks(1)->set_rank(UINT32_MAX); },
      [](auto& b) { b.mutable_ranks(1)->set_rank(4); },  // twice
      [](auto& b) { b.mutable_ranks()->SwapElements(0, 1); },
      [nan](auto& b) { b.mutable_ranks(0)->set_cpu_cores(nan); },
      [](auto& b) { b.mutable_ranks(0)->set_cpu_cores(-1); },
      [infinity](auto& b) { b.mutable_ranks(0)->set_cpu_cores(infinity); },
      [](auto& b) { b.mutable_ranks(0)->set_resident_bytes(UINT64_MAX); },
      [](auto& b) { b.mutable_ranks(0)->set_written_bytes_per_s(UINT64_MAX); },
      [](auto& b) { b.mutable_ranks(0)->set_threads(UINT32_MAX); },
      [nan](auto& b) { b.mutable_ranks(0)->set_major_faults_per_s(nan); },
      [](auto& b) { b.mutable_ranks(0)->set_step(-1); },
      [nan](auto& b) { b.mutable_ranks(0)->set_step_ms(nan); },
      [](auto& b) { b.mutable_ranks(0)->add_open_devices("../../etc"); },
      [](auto& b) { b.mutable_ranks(0)->add_open_devices("npu:1"); },
      [](auto& b) {
        for (int i = 0; i < 10'000; ++i) b.mutable_ranks(0)->add_open_devices("gpu:1");
      },
      [](auto& b) { b.mutable_devices(0)->set_device("gpu:2"); },
      [](auto& b) { b.mutable_devices(0)->set_device("gpu:01"); },
      [](auto& b) { b.mutable_devices(0)->set_device("gpu:3"); },  // twice
      [](auto& b) { b.add_devices()->set_device("gpu:1"); },
      [](auto& b) { b.mutable_devices(0)->set_utilization(1.5); },
      [nan](auto& b) { b.mutable_devices(0)->set_utilization(nan); },
      [](auto& b) { b.mutable_devices(0)->set_memory_total_bytes(UINT64_MAX); },
      [](auto& b) { b.mutable_devices(0)->set_power_watts(-5); },
      [nan](auto& b) { b.mutable_devices(0)->set_temperature_celsius(nan); },
      [](auto& b) { b.mutable_devices(0)->set_clock_mhz(UINT32_MAX); },
      [](auto& b) { b.mutable_devices(0)->add_throttled_by("\033[2J"); },
      [](auto& b) { b.mutable_devices(0)->add_throttled_by(std::string(1'000, 'a')); },
      [](auto& b) {
        for (int i = 0; i < 100; ++i) b.mutable_devices(0)->add_throttled_by("power");
      },
  };
  for (const auto& lie : lies) {
    v1::SampleBatch batch = Valid();
    lie(batch);
    const absl::Status status = CheckSampleBatch(batch, Part());
    EXPECT_EQ(common::CodeOf(status), "JC1611") << batch.ShortDebugString().substr(0, 300);
  }
}

TEST(SampleChecksTest, AFloodOfRanksIsRefused) {
  v1::SampleBatch batch = Valid();
  batch.clear_ranks();
  for (int i = 0; i <= kSampledRanksMax; ++i) batch.add_ranks()->set_rank(static_cast<uint32_t>(i));
  SampledPart part = Part();
  part.first_rank = 0;
  part.ranks = 100'000;
  EXPECT_FALSE(CheckSampleBatch(batch, part).ok());
}

}  // namespace
}  // namespace muster::coordinator
