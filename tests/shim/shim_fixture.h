// A real shim with real ranks in a separate directory, driven the way a worker does. Waits with
// deadlines, never sleeps.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "common/kernel/kill_ladder.h"
#include "common/kernel/process.h"
#include "worker/launch/shim_client.h"

namespace muster::worker {

inline std::string SiblingBinary(const std::string& relative) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string path(self, length > 0 ? static_cast<size_t>(length) : 0);
  return path.substr(0, path.rfind('/') + 1) + relative;
}

class ShimFixture : public testing::Test {
 protected:
  ShimFixture() {
    char name[] = "/tmp/mshim-XXXXXX";
    root_ = mkdtemp(name);
    launch_.job = 7;
    launch_.attempt = 2;
    launch_.mark = NewAttemptMark(7, 2, "test");
    launch_.attempt_dir = root_ + "/7-2";
    launch_.spool_dir = launch_.attempt_dir + "/spool";
    launch_.socket_path = root_ + "/s.sock";
    EXPECT_TRUE(common::MakeDirectories(launch_.spool_dir).ok());
  }

  ~ShimFixture() override {
    shim_.reset();
    KillAttempt(launch_.attempt_dir);
    EXPECT_TRUE(common::RemoveTree(root_).ok());
  }

  void AddRank(std::vector<std::string> argv) {
    common::RankLaunch rank;
    rank.rank = static_cast<uint32_t>(launch_.ranks.size());
    rank.local_rank = rank.rank;
    rank.workdir = root_;
    if (argv[0] == "test_rank") argv[0] = SiblingBinary("test_rank");
    rank.program = argv[0];
    rank.argv = std::move(argv);
    rank.env = {"PATH=/usr/bin:/bin", std::string(common::kMarkVariable) + "=" + launch_.mark};
    launch_.ranks.push_back(std::move(rank));
  }

  void UseCgroups(common::KillLevel level) {
    host_ = common::ProbeCgroupHost(level);
    const common::AttemptCgroups cgroups = common::MakeAttemptCgroups(host_, launch_.mark);
    launch_.cgroup_dir = cgroups.v2_dir;
    launch_.freezer_dir = cgroups.freezer_dir;
  }

  void Spawn(const std::vector<int>& held = {}) {
    auto shim = ShimClient::Spawn(SiblingBinary("../muster-shim"), launch_, held);
    ASSERT_TRUE(shim.ok()) << shim.status();
    shim_ = *std::move(shim);
  }

  // Processes events until `done` holds or ten seconds have passed.
  bool Until(const std::function<bool()>& done) {
    const int64_t deadline = common::MonotonicMicros() + 10'000'000;
    while (!done()) {
      if (common::MonotonicMicros() > deadline) return false;
      if (shim_ == nullptr || shim_->gone()) {
        poll(nullptr, 0, 1);
        continue;
      }
      pollfd entry{shim_->fd(), POLLIN, 0};
      poll(&entry, 1, 5);
      TakeIn();
    }
    return true;
  }

  void TakeIn() {
    auto events = shim_->Read();
    ASSERT_TRUE(events.ok()) << events.status();
    for (const ShimEvent& event : *events) {
      if (const auto* started = std::get_if<RankStarted>(&event))
        started_[started->rank] = *started;
      if (const auto* exited = std::get_if<RankExited>(&event)) exits_[exited->rank] = *exited;
      if (const auto* closed = std::get_if<StreamClosed>(&event)) {
        closed_[{closed->rank, closed->stream}] = *closed;
      }
      if (std::get_if<SpoolGrew>(&event) != nullptr) {
        ++grew_;
        shim_->SpoolSeen();
      }
      if (const auto* ended = std::get_if<ShimEnded>(&event)) how_ = ended->how;
    }
  }

  bool UntilGone() {
    return Until([this] { return shim_->gone(); });
  }

  std::string Spool(uint32_t rank, common::Stream stream = common::Stream::kStdout) const {
    return common::ReadFile(common::SpoolPath(launch_.spool_dir, rank, stream), 1u << 30)
        .value_or("");
  }

  std::vector<common::SpoolRecord> Index(uint32_t rank,
                                         common::Stream stream = common::Stream::kStdout) const {
    const std::string bytes =
        common::ReadFile(common::SpoolPath(launch_.spool_dir, rank, stream) + ".idx", 1u << 30)
            .value_or("");
    std::vector<common::SpoolRecord> records(bytes.size() / sizeof(common::SpoolRecord));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(records.data()));
    return records;
  }

  static bool Alive(pid_t pid) {
    common::ProcessStat stat;
    return common::ReadProcessStat(pid, &stat) && stat.state != 'Z' && stat.state != 'X';
  }

  // Pids that ranks left in a file, one per line.
  std::vector<pid_t> Pids(const std::string& path) const {
    std::vector<pid_t> pids;
    const std::string text = common::ReadFile(path).value_or("");
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      pids.push_back(std::atoi(text.c_str() + at));
    }
    return pids;
  }

  std::string root_;
  common::ShimLaunch launch_;
  common::CgroupHost host_;
  std::unique_ptr<ShimClient> shim_;
  std::map<uint32_t, RankStarted> started_;
  std::map<uint32_t, RankExited> exits_;
  std::map<std::pair<uint32_t, common::Stream>, StreamClosed> closed_;
  std::string how_;
  int grew_ = 0;
};

}  // namespace muster::worker
