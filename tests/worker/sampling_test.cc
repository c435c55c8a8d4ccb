// Samples of running jobs, read from a /proc made for the test.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "common/text/strings.h"
#include "worker/sampling/attempt_sampler.h"
#include "worker/sampling/device_meter.h"
#include "worker/sampling/process_files.h"
#include "worker/sampling/rank_processes.h"
#include "worker/sampling/step_clock.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;
using common::StrCat;

// What a test defines of a process; times in ticks, of which there are 100 in a second.
struct FakeProcess {
  int pid = 0;
  int parent = 1;
  int session = 0;  // 0: the parent's, or its own pid for a rank
  uint64_t start = 0;
  uint64_t cpu = 0;
  uint64_t waited_cpu = 0;
  uint64_t faults = 0;
  uint64_t threads = 1;
  uint64_t pages = 0;
  uint64_t read = 0;
  uint64_t written = 0;
  char state = 'R';
  std::string name = "python";
  bool has_only_stat = false;
};

class SamplingTest : public ::testing::Test {
 protected:
  SamplingTest() {
    char name[] = "/tmp/msp-XXXXXX";
    proc_ = mkdtemp(name);
  }
  ~SamplingTest() override { fs::remove_all(proc_); }

  void Put(const FakeProcess& p) {
    const std::string directory = StrCat(proc_, "/", p.pid);
    fs::create_directories(directory);
    const int session = p.session == 0 ? p.pid : p.session;
    std::ofstream(directory + "/stat")
        << p.pid << " (" << p.name << ") " << p.state << " " << p.parent << " " << p.pid << " "
        << session << " 0 -1 4194304 10 20 " << p.faults << " 0 " << p.cpu << " 0 " << p.waited_cpu
        << " 0 20 0 " << p.threads << " 0 " << p.start << " 1000000 " << p.pages
        << " 18446744073709551615 0 0\n";
    if (p.has_only_stat) return;
    fs::create_directories(directory + "/fd");
    std::ofstream(directory + "/io")
        << "rchar: 5\nwchar: 6\nsyscr: 7\nsyscw: 8\nread_bytes: " << p.read
        << "\nwrite_bytes: " << p.written << "\ncancelled_write_bytes: 0\n";
    std::ofstream(directory + "/cgroup") << "0::/\n";
  }
  void Remove(int pid) { fs::remove_all(StrCat(proc_, "/", pid)); }
  void OpenFile(int pid, int number, const std::string& target) {
    fs::create_symlink(target, StrCat(proc_, "/", pid, "/fd/", number));
  }

  RankProcesses Processes() {
    return RankProcesses(ProcessFiles(proc_), [](const std::string&) { return uint64_t{1000}; },
                         {"gpu", "/dev/nvidia", [](uint32_t number, uint32_t* index) {
                            *index = number + 10;  // not the file's own number
                            return number < 2;
                          }});
  }

  std::string proc_;
};

TEST_F(SamplingTest, ARankIsItsProcessAndAllDescendants) {
  Put({.pid = 100, .threads = 3, .pages = 10});
  Put({.pid = 101, .parent = 100, .session = 100, .threads = 2, .pages = 5});
  Put({.pid = 102, .parent = 101, .session = 100, .pages = 1});
  Put({.pid = 200, .threads = 50, .pages = 9'999});  // another user's
  RankProcesses processes = Processes();
  processes.AddRank(4, 100, 0);
  EXPECT_TRUE(processes.Look(1'000).empty()) << "rates need two looks";
  Put({.pid = 100, .cpu = 100, .threads = 3, .pages = 10, .read = 4'000});
  Put({.pid = 101,
       .parent = 100,
       .session = 100,
       .cpu = 50,
       .threads = 2,
       .pages = 5,
       .written = 600});
  const std::vector<v1::RankSample> samples = processes.Look(3'000);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].rank(), 4u);
  EXPECT_FLOAT_EQ(samples[0].cpu_cores(), 0.75f);  // 150 ticks in two seconds
  EXPECT_EQ(samples[0].processes(), 3u);
  EXPECT_EQ(samples[0].threads(), 6u);
  EXPECT_EQ(samples[0].resident_bytes(), 16u * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(samples[0].read_bytes_per_s(), 2'000u);
  EXPECT_EQ(samples[0].written_bytes_per_s(), 300u);
  EXPECT_EQ(samples[0].memory_limit_bytes(), 1000u);
}

TEST_F(SamplingTest, ARankThatExitedHasNoMoreSamples) {
  Put({.pid = 100});
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  Remove(100);
  EXPECT_TRUE(processes.Look(2'000).empty());
}

TEST_F(SamplingTest, AReusedPidIsNoLongerTheRank) {
  Put({.pid = 100, .start = 50});
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 50);
  processes.Look(1'000);
  Put({.pid = 100, .start = 170, .cpu = 500'000});
  EXPECT_TRUE(processes.Look(2'000).empty());
  EXPECT_TRUE(processes.Look(3'000).empty());
}

TEST_F(SamplingTest, AChildThatEndedIsCountedOnce) {
  Put({.pid = 100, .cpu = 10});
  Put({.pid = 101, .parent = 100, .session = 100, .cpu = 300});
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  // It ran 20 ticks more, ended and was waited for: the parent has its 320 now.
  Remove(101);
  Put({.pid = 100, .cpu = 15, .waited_cpu = 320});
  std::vector<v1::RankSample> samples = processes.Look(2'000);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_FLOAT_EQ(samples[0].cpu_cores(), 0.25f);
  // A child that was never waited for leaves nothing behind, and takes nothing from its parent.
  Put({.pid = 102, .parent = 100, .session = 100, .start = 205, .cpu = 30});
  EXPECT_FLOAT_EQ(processes.Look(3'000)[0].cpu_cores(), 0.3f);
  Remove(102);
  Put({.pid = 100, .cpu = 25, .waited_cpu = 320});
  EXPECT_FLOAT_EQ(processes.Look(4'000)[0].cpu_cores(), 0.1f);
}

TEST_F(SamplingTest, AnOrphanInTheRanksSessionStillBelongsToIt) {
  Put({.pid = 100});
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  Put({.pid = 150, .parent = 1, .session = 100, .threads = 7});
  EXPECT_EQ(processes.Look(2'000)[0].threads(), 8u);
}

TEST_F(SamplingTest, AProcessThatIsFoundLateDoesNotBringItsPast) {
  Put({.pid = 100});
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(100'000);
  Put({.pid = 101, .parent = 100, .session = 100, .start = 10, .cpu = 8'000});
  EXPECT_FLOAT_EQ(processes.Look(101'000)[0].cpu_cores(), 0);
}

TEST_F(SamplingTest, NamesOfProcessesCannotForgeNumbers) {
  Put({.pid = 100, .name = "a) R 1 1 1 0 0 0 9 9 9 9 9999999 ("});
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  Put({.pid = 100, .cpu = 100, .name = "b) R 1 1 1 0 0 0 9 9 9 9 9999999 ("});
  EXPECT_FLOAT_EQ(processes.Look(2'000)[0].cpu_cores(), 1);
}

TEST_F(SamplingTest, AFloodOfProcessesIsMeasuredUpToALimit) {
  Put({.pid = 100});
  for (int i = 0; i < static_cast<int>(RankProcesses::kPerRankMax) + 10; ++i) {
    Put({.pid = 1'000 + i, .parent = 100, .session = 100, .has_only_stat = true});
  }
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  EXPECT_EQ(processes.Look(2'000)[0].processes(), RankProcesses::kPerRankMax);
}

TEST_F(SamplingTest, ZombiesAndBrokenFilesAreNothing) {
  Put({.pid = 100});
  Put({.pid = 101, .parent = 100, .session = 100, .threads = 4, .pages = 77, .state = 'Z'});
  fs::create_directories(proc_ + "/102");
  std::ofstream(proc_ + "/102/stat") << "102 (half";
  fs::create_directories(proc_ + "/103");  // vanishing: no files any more
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  const auto samples = processes.Look(2'000);
  EXPECT_EQ(samples[0].processes(), 1u);
  EXPECT_EQ(samples[0].threads(), 1u);
}

TEST_F(SamplingTest, OpenDeviceFilesBecomeDevices) {
  Put({.pid = 100});
  Put({.pid = 101, .parent = 100, .session = 100});
  OpenFile(100, 3, "/dev/nvidia0");
  OpenFile(100, 4, "/dev/nvidiactl");
  OpenFile(100, 5, "/dev/nvidia-uvm");
  OpenFile(100, 6, "/dev/nvidia7");  // not one of ours
  OpenFile(100, 7, "/dev/nvidia99999999999999");
  OpenFile(101, 3, "/dev/nvidia1");
  OpenFile(101, 4, "/dev/nvidia0");
  RankProcesses processes = Processes();
  processes.AddRank(0, 100, 0);
  processes.Look(1'000);
  const auto samples = processes.Look(2'000);
  ASSERT_EQ(samples[0].open_devices_size(), 2);
  EXPECT_EQ(samples[0].open_devices(0), "gpu:10");
  EXPECT_EQ(samples[0].open_devices(1), "gpu:11");
}

TEST_F(SamplingTest, ABatchNamesItsAttemptAndItsDevices) {
  v1::NodePart part;
  part.set_first_rank(2);
  part.set_local_world_size(1);
  part.set_device_kind("npu");
  part.add_device_indexes(5);
  AttemptSampler sampler({7, 1}, "node9", part, 0, "", std::make_shared<DeviceMeters>(),
                         ProcessFiles(proc_));
  Put({.pid = 100});
  EXPECT_FALSE(sampler.Take({.started = {{2, 100, 0}}, .steps = {}}, {.mono_ms = 1'000}));
  const auto batch =
      sampler.Take({.started = {}, .steps = {{2, {40, 12.5f}}}}, {.mono_ms = 2'500, .wall_ms = 99});
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->job(), 7u);
  EXPECT_EQ(batch->attempt(), 1u);
  EXPECT_EQ(batch->node(), "node9");
  EXPECT_EQ(batch->time_ms(), 99);
  EXPECT_EQ(batch->interval_ms(), 1'500u);
  EXPECT_EQ(batch->ranks(0).step(), 40);
  EXPECT_FLOAT_EQ(batch->ranks(0).step_ms(), 12.5f);
  ASSERT_EQ(batch->devices_size(), 1);
  EXPECT_EQ(batch->devices(0).device(), "npu:5");
  EXPECT_FALSE(batch->devices(0).has_utilization());
}

TEST_F(SamplingTest, CpuSlotsAreNotMeasuredAsDevices) {
  v1::NodePart part;
  part.set_device_kind("cpu");
  part.add_device_indexes(0);
  AttemptSampler sampler({7, 1}, "node9", part, 0, "", std::make_shared<DeviceMeters>(),
                         ProcessFiles(proc_));
  Put({.pid = 100});
  sampler.Take({.started = {{0, 100, 0}}, .steps = {}}, {.mono_ms = 1'000});
  EXPECT_EQ(sampler.Take({}, {.mono_ms = 2'000})->devices_size(), 0);
}

TEST(StepClockTest, ReturnsTheMeanOfTheStepsSinceTheLastSample) {
  StepClock clock;
  EXPECT_FLOAT_EQ(clock.TakeStepMs(), 0);
  clock.Note(10, 1'000);
  EXPECT_FLOAT_EQ(clock.TakeStepMs(), 0) << "one step does not make a duration";
  clock.Note(14, 1'400);
  EXPECT_FLOAT_EQ(clock.TakeStepMs(), 100);
  EXPECT_FLOAT_EQ(clock.TakeStepMs(), 100) << "repeated while none ends";
  clock.Note(15, 2'400);
  EXPECT_FLOAT_EQ(clock.TakeStepMs(), 1'000);
  clock.Note(2, 3'000);  // an epoch
  EXPECT_EQ(clock.step(), 15);
  EXPECT_FLOAT_EQ(clock.TakeStepMs(), 1'000);
}

std::string FakeNvml() {
  return fs::read_symlink("/proc/self/exe").parent_path().string() + "/libfake-nvidia-ml.so";
}

TEST(NvidiaMeterTest, ReportsWhatTheDriverReports) {
  const std::unique_ptr<DeviceMeter> meter = OpenNvidiaMeter(FakeNvml());
  ASSERT_NE(meter, nullptr);
  v1::DeviceSample sample;
  meter->Measure(0, &sample);
  EXPECT_FLOAT_EQ(sample.utilization(), 0.83f);
  EXPECT_EQ(sample.memory_used_bytes(), 1ull << 30);
  EXPECT_EQ(sample.memory_total_bytes(), 24ull << 30);
  EXPECT_FLOAT_EQ(sample.power_watts(), 301.5f);
  EXPECT_FLOAT_EQ(sample.temperature_celsius(), 71);
  EXPECT_EQ(sample.clock_mhz(), 1'410u);
  EXPECT_EQ(sample.max_clock_mhz(), 1'980u);
  ASSERT_EQ(sample.throttled_by_size(), 2);
  EXPECT_EQ(sample.throttled_by(0), "power");
  EXPECT_EQ(sample.throttled_by(1), "thermal");
  EXPECT_EQ(sample.uncorrected_errors(), 3u);
  EXPECT_EQ(sample.xid_count(), 1u) << "one fault was waiting";
  EXPECT_EQ(sample.last_xid(), 79u);
  uint32_t index = 99;
  EXPECT_TRUE(meter->IndexOfFile(5, &index));  // its minor number
  EXPECT_EQ(index, 0u);
  EXPECT_FALSE(meter->IndexOfFile(0, &index));
}

TEST(NvidiaMeterTest, WhatADeviceDoesNotReportIsAbsent) {
  const std::unique_ptr<DeviceMeter> meter = OpenNvidiaMeter(FakeNvml());
  v1::DeviceSample sample;
  meter->Measure(2, &sample);  // says "not supported" to all but its memory
  EXPECT_TRUE(sample.has_memory_used_bytes());
  EXPECT_FALSE(sample.has_utilization());
  EXPECT_FALSE(sample.has_power_watts());
  EXPECT_FALSE(sample.has_last_xid());
  v1::DeviceSample lost;
  meter->Measure(1, &lost);  // fell off the bus
  EXPECT_FALSE(lost.has_memory_used_bytes());
  EXPECT_EQ(OpenNvidiaMeter("libc.so.6"), nullptr);
  EXPECT_EQ(OpenNvidiaMeter("no-such-library.so"), nullptr);
}

}  // namespace
}  // namespace muster::worker
