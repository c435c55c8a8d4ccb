// Starts the real muster-worker (and through it real shims and ranks) in a separate directory,
// against a FakeCoordinator. Kills by pid only.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/worker/fake_coordinator.h"

namespace muster::worker {

namespace fs = std::filesystem;

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() : directory_(MakeDirectory()), coordinator_(directory_ + "/c.sock") {
    coordinator_.Start();
    dialed_ = coordinator_.endpoint();
  }
  ~DaemonTest() override {
    for (const auto& [key, status] : coordinator_.statuses) Stop(key.first, key.second, 0);
    coordinator_.Wait([&] {
      for (const auto& [key, status] : coordinator_.statuses) {
        if (status.phase() != v1::ATTEMPT_PHASE_ENDED) return false;
      }
      return true;
    });
    KillWorker(SIGTERM);
    coordinator_.Stop();
    if (!HasFailure()) fs::remove_all(directory_);
  }

  static std::string MakeDirectory() {
    char name[] = "/tmp/mw-XXXXXX";
    return mkdtemp(name);
  }
  std::string StateDir() const { return directory_ + "/w"; }
  std::string AttemptDir(uint64_t job, uint32_t attempt) const {
    return StateDir() + "/attempts/" + std::to_string(job) + "-" + std::to_string(attempt);
  }

  int SpawnWorker(pid_t* pid, const std::string& log_file) const {
    const std::string binary =
        fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "muster-worker";
    std::vector<std::string> words{binary,     "--coordinator", dialed_, "--name",
                                   "node-a",   "--devices",     "cpu:4", "--state-dir",
                                   StateDir(), "--log-file",    log_file};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return posix_spawn(pid, binary.c_str(), nullptr, nullptr, argv.data(), environ);
  }
  // Waits until it has registered.
  void StartWorker() {
    const size_t before = coordinator_.registrations.size();
    ASSERT_EQ(SpawnWorker(&worker_, directory_ + "/worker.log"), 0);
    ASSERT_TRUE(coordinator_.Wait([&] { return coordinator_.registrations.size() > before; }))
        << WorkerLog();
  }
  int KillWorker(int signal) {
    if (worker_ <= 0) return -1;
    int status = 0;
    kill(worker_, signal);
    waitpid(worker_, &status, 0);
    worker_ = -1;
    return status;
  }
  // A zombie that has not been reaped yet is dead.
  static bool Alive(pid_t pid) {
    const std::string stat = ReadAll("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
  }
  std::string WorkerLog() const { return ReadAll(directory_ + "/worker.log"); }
  static std::string ReadAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static v1::LaunchAttempt ShellLaunch(uint64_t job, uint32_t attempt, const std::string& script,
                                       uint32_t ranks) {
    v1::LaunchAttempt launch;
    launch.set_job(job);
    launch.set_attempt(attempt);
    launch.set_job_name("test");
    for (const char* word : {"sh", "-c"}) launch.mutable_spec()->add_command(word);
    launch.mutable_spec()->add_command(script);
    launch.mutable_spec()->set_workdir("/tmp");
    launch.set_world_size(ranks);
    launch.mutable_part()->set_node("node-a");
    launch.mutable_part()->set_local_world_size(ranks);
    launch.mutable_part()->set_device_kind("cpu");
    launch.set_group_world_size(1);
    launch.set_master_addr("127.0.0.1");
    launch.set_master_port(29'999);
    launch.set_resume_step(-1);
    return launch;
  }
  void Launch(const v1::LaunchAttempt& launch) {
    v1::CoordinatorMessage message;
    *message.mutable_launch() = launch;
    coordinator_.Send(message);
  }
  void Stop(uint64_t job, uint32_t attempt, uint32_t grace_ms) {
    v1::CoordinatorMessage message;
    message.mutable_stop()->set_job(job);
    message.mutable_stop()->set_attempt(attempt);
    message.mutable_stop()->set_grace_ms(grace_ms);
    coordinator_.Send(message);
  }
  v1::AttemptStatus Status(uint64_t job, uint32_t attempt) {
    return coordinator_.statuses[{job, attempt}];
  }
  bool WaitPhase(uint64_t job, uint32_t attempt, v1::AttemptPhase phase) {
    return coordinator_.Wait([&] { return Status(job, attempt).phase() == phase; });
  }
  bool WaitDrained(uint64_t job, uint32_t attempt) {
    return coordinator_.Wait([&] { return Status(job, attempt).logs_drained(); });
  }
  std::string Stdout(uint64_t job, uint32_t attempt, uint32_t rank) {
    return coordinator_.logs[{job, attempt, rank, v1::LOG_STREAM_STDOUT}].bytes;
  }

  const std::string directory_;
  FakeCoordinator coordinator_;
  std::string dialed_;  // --coordinator
  pid_t worker_ = -1;
};

}  // namespace muster::worker
