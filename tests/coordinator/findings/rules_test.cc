// Each rule: what makes it report, what is just not enough, and that it falls silent again.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/job_story.h"
#include "tests/support/paths.h"

namespace muster::testing {
namespace {

using Times = std::map<std::string, double>;

const Times kComputing = {{"step", 0.1}, {"compute", 0.09}, {"data_wait", 0.005}};

v1::DeviceSample Clocked(uint32_t mhz, const std::string& why) {
  v1::DeviceSample sample = DeviceUsing("gpu:0", 0.9);
  sample.set_clock_mhz(mhz);
  sample.set_max_clock_mhz(2'000);
  if (!why.empty()) sample.add_throttled_by(why);
  return sample;
}

// ---------------------------------------------------------------- devices

TEST(IdleDevicesTest, OneProcessOnTwoSlotsIsTheForgottenLauncher) {
  JobStory story(1, "cpu", 2);
  story.At(55).Measured(40, {RankUsing(0, 1.02)});
  const v1::Finding* found = story.Find("idle-devices");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "1 of 2 devices is busy");
  EXPECT_EQ(found->cause(),
            "rank 0 on node1 holds several devices, but is one process: the launcher was "
            "forgotten, or started one process");
  EXPECT_EQ(found->fix(), "jobctl run -n 2 --devices cpu:2 -- python train.py");
  EXPECT_EQ(found->wasted_device_us(), 45'000'000) << "one device since second 10";
  EXPECT_EQ(found->severity(), v1::FINDING_SEVERITY_WARNING);
}

TEST(IdleDevicesTest, AForeignLauncherIsReplacedByTheProgramItself) {
  JobStory story(1, "cpu", 2);
  story.job().mutable_spec()->clear_command();
  for (const char* word : {"sh", "-c", "accelerate launch --cpu --num_processes 2 train.py"}) {
    story.job().mutable_spec()->add_command(word);
  }
  v1::RankSample sample = RankUsing(0, 1.0);
  sample.set_processes(3);
  story.At(60).Measured(45, {sample});
  const v1::Finding* found = story.Find("idle-devices");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->fix(),
            "jobctl run -n 2 --devices cpu:2 -- python train.py (the program itself: Muster "
            "starts one per device)");
  EXPECT_NE(found->cause().find("only one of its processes computes"), std::string::npos);
}

TEST(IdleDevicesTest, AppearsWithinAMinuteButNotWhileTheProgramStarts) {
  JobStory story(1, "cpu", 2);
  story.At(45).Measured(34, {RankUsing(0, 1.0)});
  EXPECT_EQ(story.Find("idle-devices"), nullptr) << "35 s after its start";
  story.At(51).Measured(5, {RankUsing(0, 1.0)});
  EXPECT_NE(story.Find("idle-devices"), nullptr) << "41 s after its start";
}

TEST(IdleDevicesTest, FallsSilentWhenBothSlotsAreUsed) {
  JobStory story(1, "cpu", 2);
  story.At(60).Measured(40, {RankUsing(0, 1.0)});
  ASSERT_NE(story.Find("idle-devices"), nullptr);
  story.At(100).Measured(39, {RankUsing(0, 1.9)});
  EXPECT_EQ(story.Find("idle-devices"), nullptr);
}

TEST(IdleDevicesTest, MoreThanHalfOfTheSlotsIsEnough) {
  JobStory story(1, "cpu", 4);
  story.At(60).Measured(40, {RankUsing(0, 2.6)});
  EXPECT_EQ(story.Find("idle-devices"), nullptr);
  JobStory half(1, "cpu", 4);
  half.At(60).Measured(40, {RankUsing(0, 2.1)});
  ASSERT_NE(half.Find("idle-devices"), nullptr);
  EXPECT_EQ(half.Find("idle-devices")->sentence(), "2 of 4 devices are busy");
}

TEST(IdleDevicesTest, ARankThatNeverWorkedIsNamed) {
  JobStory story(2);
  story.At(60).Measured(45, {RankUsing(0, 0.98), RankUsing(1, 0.0)});
  const v1::Finding* found = story.Find("idle-devices");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->cause(), "rank 1 on node1 has not used its device since it started");
  EXPECT_EQ(found->fix(), "jobctl stack calm-otter-7");
}

TEST(IdleDevicesTest, ARankThatWaitsAtTheEndOrReportsMetricsIsNotIdle) {
  JobStory story(2);
  story.At(40).Measured(20, {RankUsing(0, 1), RankUsing(1, 1)});
  story.At(120).Measured(79, {RankUsing(0, 1), RankUsing(1, 0)});
  EXPECT_EQ(story.Find("idle-devices"), nullptr) << "it had worked for a fifth of its time";
  JobStory reporting(2);
  reporting.At(50).Steps(1, 30, 1, kComputing, 2);
  reporting.At(60).Measured(45, {RankUsing(0, 1), RankUsing(1, 0)});
  EXPECT_EQ(reporting.Find("idle-devices"), nullptr);
}

TEST(IdleDevicesTest, WaitsForTheFirstStepsOfATrainerThatReportsThem) {
  JobStory story(1, "cpu", 2);
  story.At(60).Measured(45, {RankUsing(0, 1)}).Step(3);
  EXPECT_EQ(story.Find("idle-devices"), nullptr);
  story.At(61).Step(9);
  EXPECT_NE(story.Find("idle-devices"), nullptr);
}

TEST(IdleDevicesTest, NothingAtAllWaitsTenFloors) {
  JobStory story(2);
  story.At(300).Measured(60, {RankUsing(0, 0), RankUsing(1, 0)});
  EXPECT_EQ(story.Find("idle-devices"), nullptr);
  story.At(700).Measured(60, {RankUsing(0, 0), RankUsing(1, 0)});
  ASSERT_NE(story.Find("idle-devices"), nullptr);
  EXPECT_EQ(story.Find("idle-devices")->sentence(), "0 of 2 devices are busy");
}

TEST(IdleDevicesTest, AcceleratorsThatTheFrameworkDoesNotSee) {
  JobStory story(1, "gpu");
  story.At(60).Measured(45, {RankUsing(0, 3)}, {DeviceUsing("gpu:0", 0)});
  EXPECT_EQ(story.Find("idle-devices"), nullptr) << "nothing is busy: only after ten floors";
  story.At(700).Measured(60, {RankUsing(0, 3)}, {DeviceUsing("gpu:0", 0)});
  ASSERT_NE(story.Find("idle-devices"), nullptr);
  EXPECT_NE(story.Find("idle-devices")->cause().find("compute on the CPU"), std::string::npos);
  JobStory training(1, "gpu");
  training.At(60).Measured(45, {RankUsing(0, 3)}, {DeviceUsing("gpu:0", 0)});
  training.Steps(1, 20, 1, kComputing);
  EXPECT_NE(training.Find("idle-devices"), nullptr) << "it trains without its device";
  JobStory unknown(1, "gpu");
  unknown.At(700).Measured(60, {RankUsing(0, 3)});
  EXPECT_EQ(unknown.Find("idle-devices"), nullptr) << "no device was measured";
}

TEST(SharedDeviceTest, AllRanksOnDeviceZero) {
  JobStory story(2, "gpu");
  const auto use = [&](const std::string& second) {
    story.Measured(30, {RankUsing(0, 1, {"gpu:0"}), RankUsing(1, 1, {second})},
                   {DeviceUsing("gpu:0", 0.9), DeviceUsing("gpu:1", 0)});
  };
  story.At(60);
  use("gpu:0");
  const v1::Finding* found = story.Find("shared-device");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "all 2 ranks on node1 use gpu:0; 1 device is idle");
  EXPECT_EQ(story.Codes(), std::vector<std::string>{"shared-device"}) << "instead of idle-devices";
  story.At(100);
  use("gpu:1");
  EXPECT_EQ(story.Find("shared-device"), nullptr);
}

TEST(ThrottledTest, AHotDeviceIsNamedAndAPowerLimitIsNot) {
  JobStory story(1, "gpu");
  story.At(60).Measured(40, {RankUsing(0, 1)}, {Clocked(1'200, "thermal")});
  const v1::Finding* found = story.Find("throttled");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "gpu:0 on node1 runs at 60 % of its clock: thermal");
  story.At(100).Measured(39, {RankUsing(0, 1)}, {Clocked(1'900, "thermal")});
  EXPECT_EQ(story.Find("throttled"), nullptr) << "above 85 %";
  story.At(140).Measured(39, {RankUsing(0, 1)}, {Clocked(1'400, "power")});
  EXPECT_EQ(story.Find("throttled"), nullptr) << "at its power limit, as under any load";
}

TEST(DeviceErrorsTest, CountsFromTheAttemptsFirstSample) {
  JobStory story(1, "gpu");
  v1::DeviceSample sample = DeviceUsing("gpu:0", 0.9);
  sample.set_xid_count(4);
  sample.set_last_xid(63);
  story.At(60).Measured(20, {}, {sample});
  EXPECT_EQ(story.Find("device-errors"), nullptr) << "they were there before";
  sample.set_xid_count(5);
  sample.set_last_xid(79);
  story.At(70).Measured(1, {}, {sample});
  ASSERT_NE(story.Find("device-errors"), nullptr);
  EXPECT_EQ(story.Find("device-errors")->sentence(),
            "gpu:0 on node1 reported Xid 79 during this attempt");
  story.Fail(75, 76);
  EXPECT_NE(story.Find("device-errors"), nullptr) << "the attempt may have failed of it";
  story.BeginAttempt(77, 78);
  EXPECT_EQ(story.Find("device-errors"), nullptr);
}

// ---------------------------------------------------------------- steps

TEST(DataStarvedTest, AThirdOfEachStepSpentWaiting) {
  const Times waiting = {{"step", 0.1}, {"compute", 0.06}, {"data_wait", 0.035}};
  JobStory story(2);
  story.At(80).Steps(1, 200, 0.1, waiting);
  const v1::Finding* found = story.Find("data-starved");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "the devices wait for data for 35 % of each step (35 ms)");
  EXPECT_NEAR(static_cast<double>(found->wasted_device_us()), 2 * 200 * 0.035e6, 1e6);
  story.At(82).Step(201, kComputing);
  EXPECT_EQ(story.Find("data-starved"), nullptr) << "one good window is enough";
  JobStory early(2);
  early.At(69).Steps(1, 200, 0.1, waiting);
  EXPECT_EQ(early.Find("data-starved"), nullptr) << "within a floor of its start";
  JobStory little(2);
  little.At(80).Steps(1, 200, 0.1, {{"step", 0.1}, {"compute", 0.06}, {"data_wait", 0.029}});
  EXPECT_EQ(little.Find("data-starved"), nullptr);
}

TEST(CommunicationBoundTest, NeedsTwoRanksAndIsNotReportedForASlowRank) {
  const Times talking = {{"step", 0.1},
                         {"forward", 0.02},
                         {"backward", 0.03},
                         {"optimizer", 0.005},
                         {"communication", 0.042}};
  JobStory story(2);
  story.At(80).Steps(1, 100, 0.1, talking);
  ASSERT_NE(story.Find("communication-bound"), nullptr);
  EXPECT_EQ(story.Find("communication-bound")->sentence(),
            "communication takes 42 % of each step (42 ms)");
  JobStory alone(1);
  alone.At(80).Steps(1, 100, 0.1, talking);
  EXPECT_EQ(alone.Find("communication-bound"), nullptr);
  JobStory little(2);
  little.At(80).Steps(1, 100, 0.1, {{"step", 0.1}, {"compute", 0.06}, {"communication", 0.039}});
  EXPECT_EQ(little.Find("communication-bound"), nullptr);
}

TEST(SlowRankTest, IsNamedWithWhatItCosts) {
  JobStory story(4);
  const auto steps = [&](int64_t first, double slow) {
    for (int64_t step = first; step < first + 40; ++step) {
      for (uint32_t rank = 0; rank < 4; ++rank) {
        const double own = rank == 2 ? slow : 0.1;
        story.Step(step, {{"step", slow}, {"compute", own}, {"communication", slow - own}}, rank);
      }
    }
  };
  story.At(80);
  steps(1, 0.15);
  const v1::Finding* found = story.Find("slow-rank");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "rank 2 on node1 is slow: 150 ms a step, the others 100 ms");
  EXPECT_NEAR(static_cast<double>(found->wasted_device_us()), 40 * 0.05e6 * 4, 1e5);
  EXPECT_EQ(story.Look().ledger().blames(0).who(), "rank 2 on node1");
  story.At(90);
  steps(41, 0.12);
  EXPECT_EQ(story.Find("slow-rank"), nullptr) << "20 % is not enough";
}

TEST(SlowRankTest, IsSilentWhereOnlyRankZeroReports) {
  JobStory story(2);
  story.At(80).Steps(1, 100, 0.1, kComputing);
  EXPECT_EQ(story.Find("slow-rank"), nullptr);
}

// DDP without reported communication: the others wait inside what they call computing.
TEST(SlowRankTest, IsFoundByItsDataWhereCollectivesEqualizeAllSteps) {
  JobStory story(4);
  const auto steps = [&](int64_t first, double wait) {
    for (int64_t step = first; step < first + 40; ++step) {
      for (uint32_t rank = 0; rank < 4; ++rank) {
        const double data = rank == 1 ? wait : 0.01;
        story.Step(step, {{"step", 0.2}, {"data_wait", data}, {"compute", 0.2 - data}}, rank);
      }
    }
  };
  story.At(80);
  steps(1, 0.08);
  const v1::Finding* found = story.Find("slow-rank");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "rank 1 on node1 is slow: 80 ms of each step it waits for data, the others 10 ms");
  EXPECT_EQ(found->cause(), "it waits for its data longer than the others");
  story.At(90);
  steps(41, 0.05);
  EXPECT_EQ(story.Find("slow-rank"), nullptr) << "a fifth of a step is not enough";
}

TEST(NeverMetTest, RanksWithoutAProcessGroupWhileTheyRunAndWhenTheyHaveSucceeded) {
  JobStory story(2);
  story.Meeting(v1::MEETING_NOT_SEEN).At(120).Measured(60, {RankUsing(0, 1), RankUsing(1, 1)});
  EXPECT_EQ(story.Find("ranks-never-met"), nullptr) << "imports may take that long";
  story.At(131).Measured(10, {RankUsing(0, 1), RankUsing(1, 1)});
  const v1::Finding* found = story.Find("ranks-never-met");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "the 2 ranks never met: no process listened on MASTER_PORT, and no rank was connected "
            "to another");
  EXPECT_NE(found->fix().find("DistributedSampler"), std::string::npos);
  JobStory quick(2);
  quick.Meeting(v1::MEETING_NOT_SEEN).At(15).Measured(4, {RankUsing(0, 1), RankUsing(1, 1)});
  EXPECT_EQ(quick.Find("ranks-never-met"), nullptr);
  quick.Finish(v1::JOB_STATE_SUCCEEDED, 16);
  EXPECT_NE(quick.Find("ranks-never-met"), nullptr);
}

TEST(NeverMetTest, FallsSilentOnceTheyMeetAndIsNotSaidOfOneRankOrOfAFailure) {
  JobStory story(2);
  story.Meeting(v1::MEETING_NOT_SEEN).At(140).Measured(60, {RankUsing(0, 1), RankUsing(1, 1)});
  ASSERT_NE(story.Find("ranks-never-met"), nullptr);
  story.Meeting(v1::MEETING_SEEN).At(141).Measured(1, {RankUsing(0, 1)});
  story.Meeting(v1::MEETING_NOT_SEEN).At(150).Measured(8, {RankUsing(0, 1)});
  EXPECT_EQ(story.Find("ranks-never-met"), nullptr) << "once is enough";
  JobStory alone(1);
  alone.Meeting(v1::MEETING_NOT_SEEN).At(140).Measured(60, {RankUsing(0, 1)});
  EXPECT_EQ(alone.Find("ranks-never-met"), nullptr);
  JobStory older(2);
  older.At(140).Measured(60, {RankUsing(0, 1), RankUsing(1, 1)});
  EXPECT_EQ(older.Find("ranks-never-met"), nullptr) << "its worker does not look";
  JobStory failed(2);
  failed.Meeting(v1::MEETING_NOT_SEEN).At(20).Measured(8, {RankUsing(0, 1), RankUsing(1, 1)});
  failed.Finish(v1::JOB_STATE_FAILED, 21);
  EXPECT_EQ(failed.Find("ranks-never-met"), nullptr);
}

TEST(IdleRankTest, IsNamedAlthoughItReports) {
  JobStory story(4);
  const auto measured = [&](double seconds, double cores) {
    story.Measured(seconds,
                   {RankUsing(0, 1), RankUsing(1, 0.9), RankUsing(2, cores), RankUsing(3, 1)});
  };
  story.At(40);
  measured(20, 1);
  story.At(150);
  measured(109, 0.02);
  story.Steps(1, 100, 1, kComputing, 4);
  EXPECT_EQ(story.Find("idle-rank"), nullptr) << "not yet two minutes";
  story.At(165);
  measured(14, 0.02);
  story.Steps(101, 15, 1, kComputing, 4);
  const v1::Finding* found = story.Find("idle-rank");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "rank 2 on node1 has used 2 % of a processor for 2m 5s, while the others work");
  EXPECT_EQ(found->ranks(0), 2u);
  story.At(230);
  measured(64, 0.02);
  EXPECT_EQ(story.Find("idle-rank"), nullptr) << "no step for a minute: an evaluation, or worse";
  story.At(235);
  measured(4, 0.8);
  story.Steps(116, 5, 1, kComputing, 4);
  EXPECT_EQ(story.Find("idle-rank"), nullptr);
}

TEST(IdleRankTest, IsSilentWhereMostAreIdleOrADeviceWorks) {
  JobStory evaluation(4);
  evaluation.At(200).Measured(
      180, {RankUsing(0, 1), RankUsing(1, 0.02), RankUsing(2, 0.02), RankUsing(3, 0.02)});
  EXPECT_EQ(evaluation.Find("idle-rank"), nullptr) << "three wait for one";
  JobStory devices(2, "gpu");
  devices.At(200).Measured(180, {RankUsing(0, 1), RankUsing(1, 0.02)},
                           {DeviceUsing("gpu:0", 0.9), DeviceUsing("gpu:1", 0.9)});
  EXPECT_EQ(devices.Find("idle-rank"), nullptr);
}

TEST(NoProgressTest, TenStepsAndThreePausesAndTheFloor) {
  JobStory story(2);
  story.At(100).Steps(1, 12, 7, kComputing);
  story.At(169);
  EXPECT_EQ(story.Find("no-progress"), nullptr) << "69 s, ten steps took 70";
  story.At(171);
  const v1::Finding* found = story.Find("no-progress");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "no step for 1m 11s since step 12; a step took 7.0 s");
  EXPECT_EQ(found->fix(), "jobctl stack calm-otter-7");
  story.At(172).Step(13);
  EXPECT_EQ(story.Find("no-progress"), nullptr);
}

TEST(NoProgressTest, AnEvaluationOfAnyLengthIsKnownFromTheFirst) {
  JobStory story(2);
  story.At(50).Steps(1, 30, 1, kComputing);
  story.At(150).Step(31).At(160).Steps(32, 10, 1, kComputing);
  story.At(400);
  EXPECT_EQ(story.Find("no-progress"), nullptr) << "a pause took 100 s before";
  story.At(461);
  EXPECT_NE(story.Find("no-progress"), nullptr);
}

TEST(NoProgressTest, RanksThatComputeGetTenTimesAsLong) {
  JobStory story(2);
  story.At(50).Steps(1, 30, 1, kComputing);
  story.At(200).Measured(60, {RankUsing(0, 1), RankUsing(1, 1)});
  EXPECT_EQ(story.Find("no-progress"), nullptr);
  story.At(201).Measured(1, {RankUsing(0, 1), RankUsing(1, 0)});
  EXPECT_NE(story.Find("no-progress"), nullptr) << "one waits for the other";
}

TEST(NoProgressTest, IsSilentWhenAllStepsAreDoneAndBeforeTheThird) {
  JobStory done(1);
  done.At(50).Steps(1, 30, 1, kComputing).Total(30).At(500);
  EXPECT_EQ(done.Find("no-progress"), nullptr);
  JobStory early(1);
  early.At(50).Steps(1, 2, 1, kComputing).At(500);
  EXPECT_EQ(early.Find("no-progress"), nullptr);
}

// ---------------------------------------------------------------- memory

TEST(MemoryNearLimitTest, TenSecondsAtNinetyTwoPercent) {
  JobStory story(1);
  story.At(60).Measured(12, {RankHolding(0, 93, 100)});
  ASSERT_NE(story.Find("memory-near-limit"), nullptr);
  EXPECT_EQ(story.Find("memory-near-limit")->sentence(),
            "rank 0 on node1 uses 93 B of 100 B memory");
  story.At(62).Measured(1, {RankHolding(0, 90, 100)});
  EXPECT_EQ(story.Find("memory-near-limit"), nullptr);
}

TEST(MemoryNearLimitTest, ARanksOwnLimitIsNamedWithWhatRaisesIt) {
  JobStory story(1);
  story.job().mutable_spec()->mutable_shape()->mutable_limits()->set_memory_bytes(1'000'000);
  story.At(60).Measured(12, {RankHolding(0, 950'000, 999'424)});  // whole pages
  const v1::Finding* found = story.Find("memory-near-limit");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "rank 0 on node1 uses 950 KB of 999 KB memory, its limit (--memory)");
  EXPECT_EQ(found->fix(), "a smaller batch, fewer loader workers, or a larger --memory");
}

TEST(MemoryGrowingTest, ALeakIsFoundAndAFillingCacheIsNot) {
  constexpr uint64_t kGb = 1'000'000'000;
  JobStory leak(1);
  JobStory cache(1);
  for (int second = 10; second < 300; ++second) {
    const auto t = static_cast<uint64_t>(second);
    leak.At(second).Measured(0, {RankHolding(0, 4 * kGb + t * kGb / 60, 64 * kGb)});
    const uint64_t filled = std::min<uint64_t>(t * kGb / 20, 6 * kGb);
    cache.At(second).Measured(0, {RankHolding(0, 4 * kGb + filled, 64 * kGb)});
  }
  ASSERT_NE(leak.Find("memory-growing"), nullptr);
  EXPECT_NE(leak.Find("memory-growing")->sentence().find("grows without end"), std::string::npos);
  EXPECT_EQ(cache.Find("memory-growing"), nullptr);
}

// ---------------------------------------------------------------- loss

TEST(LossNotFiniteTest, ThreeInARowAndGoneWithTheFirstNumber) {
  JobStory story(2);
  story.At(20).Loss(1, 2.0).At(21).Loss(2, NAN).At(22).Loss(3, NAN);
  EXPECT_EQ(story.Find("loss-not-finite"), nullptr);
  story.At(31).Loss(4, NAN);
  const v1::Finding* found = story.Find("loss-not-finite");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(), "train_loss has been NaN since step 2, 3 values in a row");
  EXPECT_EQ(found->wasted_device_us(), 20'000'000) << "two devices for 10 s";
  EXPECT_EQ(found->fix(),
            "jobctl cancel calm-otter-7; jobctl rerun calm-otter-7 with a lower learning rate, "
            "clipping or other data");
  story.Committed(1, 20).Committed(3, 22);
  EXPECT_NE(story.Find("loss-not-finite")->fix().find("rerun calm-otter-7 --from 1 with"),
            std::string::npos)
      << "the checkpoint of step 3 has NaN in it";
  story.At(32).Loss(5, 1.0);
  EXPECT_EQ(story.Find("loss-not-finite"), nullptr);
}

TEST(LossDivergingTest, TwiceTheBestAndFarAboveTheScatter) {
  const auto with = [](double end) {
    JobStory story(1);
    for (int step = 1; step <= 300; ++step) {
      const double noise = step % 2 == 0 ? 0.02 : -0.02;
      const double loss = step <= 200 ? 2.0 / (1 + step * 0.05) : end;
      story.At(20 + step).Loss(step, loss + noise);
    }
    return story.Find("loss-diverging") != nullptr;
  };
  EXPECT_TRUE(with(2.5));
  EXPECT_FALSE(with(1.2)) << "still below where it began";
  EXPECT_FALSE(with(0.2));
}

// ---------------------------------------------------------------- versions, checkpoints

v1::Versions& VersionsOf(JobStory& story) {
  return *story.attempt().mutable_parts(0)->mutable_versions();
}

v1::Versions TorchFor(const std::string& toolkit, const std::string& driver,
                      const std::string& driver_cuda) {
  v1::Versions versions;
  versions.set_framework("torch 2.11.0");
  versions.set_toolkit(toolkit);
  versions.set_driver(driver);
  versions.set_driver_cuda(driver_cuda);
  return versions;
}

TEST(VersionMismatchTest, AFrameworkForANewerCudaThanTheDriverRuns) {
  JobStory story(1, "gpu");
  VersionsOf(story) = TorchFor("13.0", "550.54.15", "12.4");
  const v1::Finding* found = story.Find("version-mismatch");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "torch 2.11.0 is built for CUDA 13.0, the driver on node1 runs CUDA up to 12.4");
  EXPECT_EQ(found->cause(),
            "driver 550.54.15 is too old for CUDA 13: the framework finds no device");
  EXPECT_EQ(found->fix(), "driver 580 or newer on node1, or the framework's build for CUDA 12");
  EXPECT_EQ(found->severity(), v1::FINDING_SEVERITY_ERROR);
  EXPECT_EQ(found->node(), "node1");
  // From the driver alone, where it does not report its CUDA.
  VersionsOf(story) = TorchFor("12.4", "470.82.01", "");
  ASSERT_NE(story.Find("version-mismatch"), nullptr);
  EXPECT_NE(story.Find("version-mismatch")->fix().find("driver 525 or newer"), std::string::npos);
}

TEST(VersionMismatchTest, FallsSilentWhereVersionsFitOrAreNotKnown) {
  JobStory story(1, "gpu");
  const std::vector<v1::Versions> fitting = {
      TorchFor("12.8", "550.54.15", "12.4"),  // minor versions are compatible
      TorchFor("12.4", "580.65.06", "13.0"),  // so is an older major one
      TorchFor("12.4", "535.104.05", ""),    TorchFor("13.0", "", ""),
      TorchFor("", "550.54.15", "12.4"),     TorchFor("99999999999999", "550.54.15", "12.4"),
      TorchFor("x.y", "z", "12.4")};
  for (const v1::Versions& versions : fitting) {
    VersionsOf(story) = versions;
    EXPECT_EQ(story.Find("version-mismatch"), nullptr) << versions.ShortDebugString();
  }
}

TEST(VersionMismatchTest, ADeviceThatWorksOrAJobWithoutGpusIsNoMismatch) {
  JobStory without(1, "cpu");
  VersionsOf(without) = TorchFor("13.0", "550.54.15", "12.4");
  EXPECT_EQ(without.Find("version-mismatch"), nullptr);
  VersionsOf(without) = TorchFor("cpu", "", "");
  EXPECT_EQ(without.Find("version-mismatch"), nullptr);
  // The compatibility package runs a newer CUDA on an older driver.
  JobStory working(1, "gpu");
  VersionsOf(working) = TorchFor("13.0", "550.54.15", "12.4");
  working.At(60).Measured(5, {RankUsing(0, 1)}, {DeviceUsing("gpu:0", 0.9)});
  EXPECT_EQ(working.Find("version-mismatch"), nullptr);
}

TEST(VersionMismatchTest, AFrameworkBuiltWithoutCudaHoldsDevicesItCannotSee) {
  JobStory story(1, "gpu");
  VersionsOf(story) = TorchFor("cpu", "550.54.15", "12.4");
  ASSERT_NE(story.Find("version-mismatch"), nullptr);
  EXPECT_EQ(story.Find("version-mismatch")->sentence(),
            "torch 2.11.0 on node1 is a build without CUDA");
  EXPECT_EQ(story.Find("version-mismatch")->severity(), v1::FINDING_SEVERITY_WARNING);
}

TEST(VersionMismatchTest, FromWhatARankPrinted) {
  JobStory story(1, "gpu");
  story.Fail(20, 21);
  EXPECT_EQ(story.Find("version-mismatch"), nullptr);
  story.attempt().mutable_culprit()->set_last_lines(
      "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)");
  ASSERT_NE(story.Find("version-mismatch"), nullptr);
  EXPECT_NE(story.Find("version-mismatch")->cause().find("newer CUDA"), std::string::npos);
}

TEST(VersionMismatchTest, WarningsThatARankOutlivedAreNotWhyItEnded) {
  JobStory story(1, "gpu");
  story.Fail(20, 21);
  v1::RankExit& exit = *story.attempt().mutable_culprit();
  exit.set_last_lines(
      "UserWarning: The NVIDIA driver on your system is too old (found version 11040)\n"
      "epoch 1\n"
      "ValueError: no such column\n");
  exit.set_fresh_lines(2);
  EXPECT_EQ(story.Find("version-mismatch"), nullptr) << "it is older than the last two lines";
  exit.set_fresh_lines(3);
  EXPECT_NE(story.Find("version-mismatch"), nullptr);
  exit.set_signal(SIGKILL);
  EXPECT_EQ(story.Find("version-mismatch"), nullptr) << "a signal ended it, not its versions";
  exit.set_signal(SIGABRT);
  EXPECT_NE(story.Find("version-mismatch"), nullptr);
  exit.set_stopped_by_us(true);
  EXPECT_EQ(story.Find("version-mismatch"), nullptr) << "it was stopped because of another";
}

TEST(CheckpointsTooRareTest, TwoFailuresThatRepeatedMinutes) {
  JobStory story(2);
  story.At(600).Steps(1, 500, 1, kComputing).Fail(600, 610);
  EXPECT_EQ(story.Find("checkpoints-too-rare"), nullptr) << "one failure may be chance";
  story.BeginAttempt(611, 620).At(1'200).Steps(1, 500, 1, kComputing).Fail(1'200, 1'210);
  story.BeginAttempt(1'211, 1'220).At(1'300).Steps(1, 50, 1, kComputing);
  const v1::Finding* found = story.Find("checkpoints-too-rare");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence(),
            "it failed 2 times and has no checkpoint: 33m 20s of device time was repeated");
  EXPECT_NE(found->fix().find("save a checkpoint about every "), std::string::npos);
  EXPECT_GT(found->wasted_device_us(), 0);
}

TEST(CheckpointsTooRareTest, OftenEnoughOrNothingRepeatedIsFine) {
  JobStory story(2);
  story.At(600).Steps(1, 500, 1, kComputing).Committed(480, 560).Committed(495, 590);
  story.Fail(600, 610).BeginAttempt(611, 620, 495);
  story.At(1'200).Steps(496, 500, 1, kComputing).Committed(990, 1'190).Fail(1'200, 1'210);
  story.BeginAttempt(1'211, 1'220, 990).At(1'300).Steps(991, 50, 1, kComputing);
  EXPECT_EQ(story.Find("checkpoints-too-rare"), nullptr);
}

TEST(CheckpointsTooSlowTest, ATenthOfTheSteps) {
  JobStory story(1);
  story.At(100).Steps(1, 60, 1, {{"step", 1}, {"compute", 0.8}, {"checkpoint", 0.12}});
  ASSERT_NE(story.Find("checkpoints-too-slow"), nullptr);
  JobStory less(1);
  less.At(100).Steps(1, 60, 1, {{"step", 1}, {"compute", 0.8}, {"checkpoint", 0.09}});
  EXPECT_EQ(less.Find("checkpoints-too-slow"), nullptr);
}

// ---------------------------------------------------------------- all of them

TEST(RulesTest, AHealthyJobHasNoFinding) {
  JobStory story(2);
  for (int step = 1; step <= 200; ++step) {
    story.At(20 + step).Loss(step, 1.0 / step).Step(step, kComputing);
  }
  story.Total(1'000).Measured(60, {RankUsing(0, 1), RankUsing(1, 0.97)});
  EXPECT_EQ(story.Codes(), std::vector<std::string>{});
}

TEST(RulesTest, AFinishedJobKeepsOnlyWhatIsStillTrue) {
  JobStory story(1, "cpu", 2);
  story.At(60).Measured(45, {RankUsing(0, 1)}).Loss(1, NAN).Loss(2, NAN).Loss(3, NAN);
  story.Finish(v1::JOB_STATE_SUCCEEDED, 70);
  EXPECT_EQ(story.Codes(), std::vector<std::string>{"loss-not-finite"});
}

TEST(RulesTest, TheWorstComesFirst) {
  JobStory story(1, "cpu", 2);
  story.At(60).Measured(45, {RankUsing(0, 1)});
  for (int step = 1; step <= 6; ++step) story.Loss(step, NAN);
  EXPECT_EQ(story.Codes(), (std::vector<std::string>{"loss-not-finite", "idle-devices"}));
}

TEST(RulesTest, EachHasItsOwnCode) {
  std::set<std::string_view> codes;
  for (const coordinator::Rule& rule : coordinator::Rules()) {
    EXPECT_TRUE(codes.insert(rule.code).second) << rule.code;
  }
  for (const coordinator::Rule& rule : coordinator::Rules()) {
    EXPECT_TRUE(rule.instead.empty() || codes.contains(rule.instead)) << rule.code;
  }
}

TEST(RulesTest, ThePageDescribesEachCode) {
  std::ifstream file(TestSource("docs/findings.md"));
  std::stringstream page;
  page << file.rdbuf();
  for (const coordinator::Rule& rule : coordinator::Rules()) {
    EXPECT_NE(page.str().find("\n| `" + std::string(rule.code) + "` | "), std::string::npos)
        << rule.code << " has no row in docs/findings.md";
  }
}

}  // namespace
}  // namespace muster::testing
