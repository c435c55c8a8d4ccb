// Work on jobs' files: a hang blocks only its own lane; reports keep their order and do not wait
// forever; a rank that hoards connections locks out only its own job.
#include "worker/base/job_threads.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <future>
#include <mutex>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "worker/attempts/rank_report_queue.h"
#include "worker/confinement/rank_token.h"
#include "worker/launch/launch_checks.h"
#include "worker/output/log_copies.h"
#include "worker/output/trainer_socket.h"

namespace muster::worker {
namespace {

TEST(JobThreadsTest, WhatHangsHoldsUpItsOwnLaneAlone) {
  JobThreads threads(4);
  std::promise<void> go, second;
  std::shared_future<void> gone(go.get_future());
  threads.Post({7, 0}, Work::kScan, [gone] { gone.wait(); });
  threads.Post({7, 0}, Work::kScan, [&second] { second.set_value(); });
  std::promise<void> other_job, other_work;
  threads.Post({8, 0}, Work::kScan, [&] { other_job.set_value(); });
  threads.Post({7, 0}, Work::kReport, [&] { other_work.set_value(); });
  other_job.get_future().wait();
  other_work.get_future().wait();
  auto behind = second.get_future();
  EXPECT_EQ(behind.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  go.set_value();
  behind.wait();
}

TEST(JobThreadsTest, LeavingDoesNotWaitForWhatHangs) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  JobThreads threads;
  std::promise<void> running;
  threads.Post({7, 0}, Work::kScan, [&running, gone] {
    running.set_value();
    gone.wait();
  });
  running.get_future().wait();
  EXPECT_FALSE(threads.Shutdown(std::chrono::milliseconds(1)));
  go.set_value();
  EXPECT_TRUE(threads.Shutdown(std::chrono::seconds(30)));
}

class ReportsTest : public ::testing::Test {
 protected:
  ReportsTest() {
    char name[] = "/tmp/mr-XXXXXX";
    directory_ = mkdtemp(name);
    launch_.set_job(7);
    launch_.mutable_part()->set_local_world_size(3);
    std::filesystem::create_directories(paths().ErrorsDir({7, 0}));
  }
  ~ReportsTest() override { std::filesystem::remove_all(directory_); }
  Paths paths() const { return Paths(directory_, directory_); }
  RankReportQueue::Callbacks Callbacks() {
    return {[this](Input input) { inputs_.push_back(std::move(input)); },
            [this](std::function<void()> task) {
              std::lock_guard<std::mutex> lock(mutex_);
              tasks_.push_back(std::move(task));
              changed_.notify_all();
            }};
  }
  // Runs what `count` reads have posted.
  void RunBack(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() >= count; });
    for (const auto& task : std::exchange(tasks_, {})) task();
  }
  static RankExited Exit(uint32_t rank, int code) {
    RankExited exit;
    exit.rank = rank;
    exit.exit_code = code;
    return exit;
  }
  std::string directory_;
  v1::LaunchAttempt launch_;
  std::vector<Input> inputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> tasks_;
};

TEST_F(ReportsTest, TheEndOfAnAttemptComesBehindTheReportsOfItsRanksAndAFifoIsSaid) {
  ASSERT_EQ(mkfifo(paths().ErrorFile({7, 0}, 1).c_str(), 0600), 0);
  JobThreads threads;
  RankReportQueue reports(paths(), &threads, Callbacks());
  reports.Add(launch_, {}, Exit(1, 3));
  reports.Add(launch_, {}, Exit(2, 0));
  reports.Add(launch_, {}, Exit(77, 1));  // not a rank of this node
  reports.Pass(AttemptEndedInput{{7, 0}, "empty"});
  reports.Pass(AttemptEndedInput{{8, 0}, "empty"});
  ASSERT_EQ(inputs_.size(), 1u);  // another attempt is not delayed
  RunBack(1);
  ASSERT_EQ(inputs_.size(), 4u);
  EXPECT_EQ(std::get<RankExitedInput>(inputs_[1]).exit.error_message(),
            "(its error file is not a regular file: it was not read)");
  EXPECT_EQ(std::get<RankExitedInput>(inputs_[2]).exit.rank(), 2u);
  EXPECT_EQ(std::get<AttemptEndedInput>(inputs_[3]).key, (AttemptKey{7, 0}));
}

TEST_F(ReportsTest, AReportThatCannotBeReadInTimeGoesOutWithoutItsWords) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  JobThreads threads;
  threads.Post({7, 0}, Work::kReport, [gone] { gone.wait(); });  // the file system hangs
  RankReportQueue reports(paths(), &threads, Callbacks());
  reports.Add(launch_, {}, Exit(0, 3));
  reports.Pass(AttemptEndedInput{{7, 0}, "empty"});
  EXPECT_TRUE(inputs_.empty());
  reports.OnTime(*reports.NextDeadlineMs());
  ASSERT_EQ(inputs_.size(), 2u);
  EXPECT_NE(std::get<RankExitedInput>(inputs_[0]).exit.error_message().find("within 5 s"),
            std::string::npos);
  go.set_value();
  RunBack(1);
  EXPECT_EQ(inputs_.size(), 2u);  // too late
}

// Blocks one lane for as long as it is alive, like a file system that hangs.
class Hang {
 public:
  Hang(JobThreads& threads, const AttemptKey& key, Work work) {
    threads.Post(key, work, [gone = std::shared_future<void>(go_.get_future())] { gone.wait(); });
  }
  ~Hang() { go_.set_value(); }

 private:
  std::promise<void> go_;
};

TEST(LaunchChecksTest, AFileSystemThatDoesNotAnswerIsTheNodesFaultAfterAWhile) {
  JobThreads threads;
  std::optional<LaunchProblem> problem;
  int answers = 0;
  {
    const Hang hang(threads, {7, 0}, Work::kLaunch);
    LaunchChecks checks("node-a", false, &threads, [](const std::function<void()>&) {});
    std::vector<common::RankLaunch> ranks(1);
    ranks[0].workdir = "/mnt/hangs";
    checks.Start({7, 0}, ranks, {}, {}, [&](std::optional<LaunchProblem> said, const auto&) {
      problem = std::move(said);
      ++answers;
    });
    checks.OnTime(*checks.NextDeadlineMs() - 1);
    EXPECT_EQ(answers, 0);
    checks.OnTime(*checks.NextDeadlineMs());
    EXPECT_FALSE(checks.NextDeadlineMs().has_value());
    threads.Shutdown(std::chrono::milliseconds(0));
  }
  ASSERT_EQ(answers, 1);
  EXPECT_EQ(problem->launch_errno, ETIMEDOUT);
  EXPECT_EQ(
      problem->text,
      "node node-a: the file system of the working directory /mnt/hangs or of the command did "
      "not answer within 20 s; fix: look at that mount on the node");
}

TEST(LogCopiesTest, CopiesThatHangHoldTheirOwnAttemptBackAndAreGivenUpAfterAWhile) {
  JobThreads threads;
  std::vector<std::string> notes;
  const Hang hang(threads, {7, 0}, Work::kCopy);
  LogCopies copies(Paths("/s", "/r"), &threads,
                   {[](const std::function<void()>&) {},
                    [&](const std::string& line) { notes.push_back(line); }});
  v1::LaunchAttempt launch;
  launch.mutable_spec()->set_log_dir("/mnt/hangs");
  launch.set_job_name("hold-1");
  copies.Open({7, 0}, launch);
  v1::LogChunk chunk;
  chunk.set_job(7);
  chunk.set_data(std::string(1 << 20, 'x'));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(copies.KeepsUp({7, 0}));
    copies.Write(chunk, 1'000);
  }
  EXPECT_FALSE(copies.KeepsUp({7, 0}));
  EXPECT_TRUE(copies.KeepsUp({8, 0}));
  copies.OnTime(10'999);
  EXPECT_FALSE(copies.KeepsUp({7, 0}));
  copies.OnTime(11'000);
  EXPECT_TRUE(copies.KeepsUp({7, 0}));  // its output continues without the copy
  EXPECT_EQ(notes, std::vector<std::string>{
                       "the copy of the output in /mnt/hangs/hold-1/attempt_0 was abandoned job=7 "
                       "attempt=0 reason=\"nothing could be written for 10 s; fix: check that "
                       "file system\""});
  threads.Shutdown(std::chrono::milliseconds(0));
}

class HoardTest : public ::testing::Test {
 protected:
  common::UniqueFd Dial(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    common::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  void Turn(TrainerSocket& trainers) {
    std::vector<pollfd> fds;
    trainers.BeginTurn(0, &fds);
    ASSERT_GE(poll(fds.data(), fds.size(), 0), 0);
    for (const pollfd& fd : fds) {
      if (fd.revents != 0) trainers.OnReady(fd, 0);
    }
  }
  std::string Answer(const common::UniqueFd& fd) {
    char buffer[4096];
    const ssize_t count = recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    return std::string(buffer, count > 0 ? static_cast<size_t>(count) : 0);
  }
};

TEST_F(HoardTest, ARankThatHoardsConnectionsShutsNobodyElseOut) {
  char name[] = "/tmp/mc-XXXXXX";
  const std::string directory = mkdtemp(name);
  TrainerSocket::Callbacks callbacks;
  callbacks.last_seq = [](const AttemptKey&, uint32_t) { return uint64_t{0}; };
  TrainerSocket trainers(std::move(callbacks), 20);
  for (const uint64_t job : {7, 8}) {
    trainers.Add({{job, 0}, 0, 1}, *ListenUnix(directory + "/" + std::to_string(job)));
  }
  std::vector<common::UniqueFd> hoard;
  for (int i = 0; i < 100; ++i) {
    hoard.push_back(Dial(directory + "/7"));
    Turn(trainers);
  }
  const common::UniqueFd other = Dial(directory + "/8");
  const std::string hello =
      "{\"type\":\"hello\",\"version\":1,\"job\":8,\"attempt\":0,\"rank\":0}\n";
  ASSERT_EQ(send(other.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  for (int i = 0; i < 3; ++i) Turn(trainers);
  EXPECT_NE(Answer(other).find("welcome"), std::string::npos);
  std::filesystem::remove_all(directory);
}

TEST_F(HoardTest, ARankOfAnotherAccountProvesItselfWithItsAttemptsToken) {
  char name[] = "/tmp/mc-XXXXXX";
  const std::string directory = mkdtemp(name);
  const Paths paths(directory, directory);
  const AttemptKey key{7, 0};
  const AttemptKey next{7, 1};
  // As for ranks with their own account; only the test's account can be used here.
  const common::LaunchAccount account{.is_other = true, .uid = getuid(), .gid = getgid()};
  for (const AttemptKey& each : {key, next}) {
    ASSERT_TRUE(common::MakeDirectories(paths.AttemptDir(each)).ok());
    ASSERT_TRUE(IssueRankToken(paths, each, account).ok());
  }
  struct stat info {};
  ASSERT_EQ(stat(paths.RankToken(key).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0400u);
  TrainerSocket::Callbacks callbacks;
  callbacks.last_seq = [](const AttemptKey&, uint32_t) { return uint64_t{0}; };
  callbacks.metrics = [](const AttemptKey&, uint32_t, v1::MetricBatch) { return absl::OkStatus(); };
  TrainerSocket trainers(std::move(callbacks), 20);
  trainers.Add({key, 0, 1, ReadRankPass(paths, key, account)}, *ListenUnix(directory + "/s"));
  const auto answer_to = [&](const std::string& token) {
    const common::UniqueFd peer = Dial(directory + "/s");
    const std::string hello =
        "{\"type\":\"hello\",\"version\":1,\"job\":7,\"attempt\":0,\"rank\":0" +
        (token.empty() ? "" : ",\"token\":\"" + token + "\"") +
        "}\n{\"type\":\"metrics\",\"seq\":1,\"points\":[]}\n";
    EXPECT_EQ(send(peer.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
    for (int i = 0; i < 3; ++i) Turn(trainers);
    return Answer(peer);
  };
  EXPECT_NE(answer_to("").find("MUSTER_RANK_TOKEN_FILE"), std::string::npos);
  for (const std::string& wrong : {std::string("guessed"), *common::ReadFile(paths.RankToken(next)),
                                   *common::ReadFile(paths.RankTokenHash(key))}) {
    const std::string refused = answer_to(wrong);
    EXPECT_NE(refused.find("is not this attempt's"), std::string::npos) << refused;
    EXPECT_NE(refused.find("the first line must be a hello"), std::string::npos) << refused;
  }
  EXPECT_NE(answer_to(*common::ReadFile(paths.RankToken(key))).find("welcome"), std::string::npos);
  std::filesystem::remove_all(directory);
}

TEST(RankPassTest, OnlyTheRanksAccountTheWorkersAndRootMayConnect) {
  const RankPass pass{.uid = 4'000'000'001};
  EXPECT_TRUE(MayConnect(pass, 4'000'000'001));
  EXPECT_TRUE(MayConnect(pass, getuid()));
  EXPECT_TRUE(MayConnect(pass, 0));
  EXPECT_FALSE(MayConnect(pass, 4'000'000'002));
}

TEST(RankPassTest, WithoutATokenRanksSpeakWhereTheyHaveTheWorkersAccount) {
  RankPass pass{.token_sha256 = common::Sha256Hex("secret")};
  EXPECT_TRUE(CheckToken(pass, "").ok());
  EXPECT_TRUE(CheckToken(pass, "secret").ok());
  EXPECT_FALSE(CheckToken(pass, "another").ok());
  pass.needs_token = true;
  EXPECT_FALSE(CheckToken(pass, "").ok());
  // An attempt of an older worker, which made none.
  EXPECT_TRUE(CheckToken(RankPass(), "").ok());
}

}  // namespace
}  // namespace muster::worker
