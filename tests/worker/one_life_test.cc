// Whether a worker trusts its own state directory, and for how long it trusts a shim.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/files/files.h"
#include "worker/launch/launch_record.h"
#include "worker/launch/shim_watch.h"
#include "worker/membership/identity.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

class IdentityTest : public testing::Test {
 protected:
  IdentityTest() {
    char name[] = "/tmp/mident-XXXXXX";
    root_ = mkdtemp(name);
    EXPECT_TRUE(common::MakeDirectories(root_ + "/w").ok());
  }
  ~IdentityTest() override { EXPECT_TRUE(common::RemoveTree(root_).ok()); }

  LoadedIdentity Load(const std::string& directory = "w", const std::string& node = "n") {
    auto loaded = LoadIdentity(Paths(root_ + "/" + directory, root_), node, ++wall_us_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *loaded;
  }
  std::string File(const std::string& directory = "w") {
    return root_ + "/" + directory + "/identity";
  }
  std::string Read() {
    std::ifstream in(File());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& text) { std::ofstream(File(), std::ios::trunc) << text; }

  std::string root_;
  int64_t wall_us_ = 1'000;
};

TEST_F(IdentityTest, ItIsKeptFromOneStartToTheNext) {
  const LoadedIdentity first = Load();
  EXPECT_FALSE(first.kept);
  const LoadedIdentity second = Load();
  EXPECT_TRUE(second.kept) << second.why_new;
  EXPECT_FALSE(second.new_boot);
  EXPECT_EQ(second.identity.incarnation, first.identity.incarnation);
}

TEST_F(IdentityTest, NoFlippedBitAndNoCutIsTakenForTheOldIdentity) {
  Load();
  const std::string text = Read();
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    for (const std::string& damaged : {flipped, text.substr(0, at)}) {
      Write(damaged);
      EXPECT_FALSE(Load().kept) << at << ": " << damaged;
    }
  }
}

TEST_F(IdentityTest, ACopyAndAnotherNameAreNewWorkers) {
  Load();
  fs::copy(root_ + "/w", root_ + "/copy", fs::copy_options::recursive);
  const LoadedIdentity copy = Load("copy");
  EXPECT_FALSE(copy.kept);
  EXPECT_NE(copy.why_new.find("a copy of " + root_ + "/w"), std::string::npos) << copy.why_new;
  EXPECT_TRUE(Load("copy").kept) << "it is one of its own by now";
  EXPECT_TRUE(Load("w").kept) << "the first one does not notice";
  EXPECT_FALSE(Load("w", "other").kept);
}

TEST_F(IdentityTest, AFileOfAnOlderVersionIsTakenAtItsWordOnce) {
  const std::string older =
      "incarnation=7\nepoch=3\nboot_id=" + BootId() + "\nmachine_id=" + MachineId() + "\n";
  Write(older);
  const LoadedIdentity loaded = Load();
  EXPECT_TRUE(loaded.kept);
  EXPECT_EQ(loaded.identity.incarnation, 7u);
  EXPECT_EQ(loaded.identity.highest_epoch, 3u);
  EXPECT_NE(Read().find("\nsum="), std::string::npos);
  Write("incarnation=7\nepoch=3\nmachine_id=" + MachineId() + "\n");
  EXPECT_FALSE(Load().new_boot) << "a lost boot id proves nothing";
  Write("incarnation=7\nepoch=3\nboot_id=x\nmachine_id=another\n");
  EXPECT_FALSE(Load().kept);
}

TEST_F(IdentityTest, AContainerThatStartedAgainIsToldFromAWorkerThatDid) {
  Load();
  EXPECT_FALSE(Load().new_container);
  // As the container before this one wrote it, on a file system that got another number since.
  Identity before = Load().identity;
  before.container = "4026532000-12345";
  before.device += 1;
  ASSERT_TRUE(SaveIdentity(Paths(root_ + "/w", ""), before).ok());
  const LoadedIdentity loaded = Load();
  EXPECT_TRUE(loaded.kept) << loaded.why_new;
  EXPECT_TRUE(loaded.new_container);
  EXPECT_FALSE(loaded.new_boot);
  before.container = "";
  before.device -= 1;
  ASSERT_TRUE(SaveIdentity(Paths(root_ + "/w", ""), before).ok());
  EXPECT_FALSE(Load().new_container) << "an unknown one proves nothing";
}

TEST_F(IdentityTest, ADamagedLaunchRecordIsNoticedAndAnOlderOneIsRead) {
  v1::LaunchAttempt launch;
  launch.set_job(7);
  launch.set_attempt(2);
  launch.set_job_name("red-fox-7");
  launch.mutable_part()->set_local_world_size(2);
  const std::string bytes = EncodeLaunchRecord(launch);
  const std::string path = root_ + "/launch.pb";
  const auto read = [&](const std::string& content, const AttemptKey& key) {
    std::ofstream(path, std::ios::trunc | std::ios::binary) << content;
    return ReadLaunchRecord(path, key).status().code();
  };
  EXPECT_EQ(ReadLaunchRecord(path, {7, 2}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(read(bytes, {7, 2}), absl::StatusCode::kOk);
  EXPECT_EQ(read(launch.SerializeAsString(), {7, 2}), absl::StatusCode::kOk);
  EXPECT_EQ(read(bytes, {7, 3}), absl::StatusCode::kDataLoss) << "of another directory";
  EXPECT_EQ(read("", {7, 2}), absl::StatusCode::kDataLoss);
  for (size_t at = 0; at + 6 < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_EQ(read(flipped, {7, 2}), absl::StatusCode::kDataLoss) << at;
  }
}

// Seconds during which a worker runs, in half-second turns.
bool LostWithin(ShimWatch& watch, int64_t& now_ms, int64_t for_ms) {
  for (const int64_t end = now_ms + for_ms; now_ms < end;) {
    now_ms += 500;
    if (watch.OnTime(now_ms, 500)) watch.Asked(true, now_ms);
    if (watch.IsLost(now_ms)) return true;
  }
  return false;
}

TEST(ShimWatchTest, OneThatAnswersIsAskedEveryFiveSecondsAndNeverLost) {
  int64_t now = 1'000;
  ShimWatch watch(now);
  watch.Heard(now);
  int asked = 0;
  for (; now < 101'000; now += 100) {
    if (!watch.OnTime(now, 100)) continue;
    ++asked;
    watch.Asked(true, now);
    watch.Heard(now);
  }
  EXPECT_EQ(asked, 20);
  EXPECT_FALSE(watch.IsLost(now));
}

TEST(ShimWatchTest, SilenceIsGivenUpAfterAWhileAndSoonerWhenItHasToStop) {
  int64_t now = 0;
  ShimWatch silent(now);
  EXPECT_FALSE(LostWithin(silent, now, 19'000));
  EXPECT_TRUE(LostWithin(silent, now, 2'000));
  // Its grace has expired: it is declared lost before the coordinator's margin of five seconds has
  // passed.
  now = 0;
  ShimWatch stopping(now);
  stopping.Heard(now);
  if (stopping.Stopping(now, 1'000)) stopping.Asked(true, now);
  EXPECT_FALSE(LostWithin(stopping, now, 1'500));
  EXPECT_TRUE(LostWithin(stopping, now, 1'000));
  // It answered at first, and hangs in the middle of its stop.
  now = 0;
  ShimWatch hangs(now);
  hangs.Heard(now);
  if (hangs.Stopping(now, 5'000)) hangs.Asked(true, now);
  hangs.Heard(now += 4'900);
  EXPECT_TRUE(LostWithin(hangs, now, 4'000));
}

TEST(ShimWatchTest, TimeInWhichTheWorkerWasStoppedItselfDoesNotCount) {
  int64_t now = 0;
  ShimWatch watch(now);
  watch.OnTime(now += 60'000, 1'000);
  EXPECT_FALSE(watch.IsLost(now));
  EXPECT_EQ(watch.silent_ms(), 1'000);
}

TEST(ShimWatchTest, OneThatIsTooOldToAnswerIsNeverGivenUp) {
  int64_t now = 0;
  ShimWatch watch(now);
  watch.Heard(now);
  watch.OnTime(now += 6'000, 1'000);
  watch.Asked(false, now);
  EXPECT_FALSE(LostWithin(watch, now, 1'000'000) && watch.silent_ms() > 0);
}

}  // namespace
}  // namespace muster::worker
