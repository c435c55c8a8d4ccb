// A rank that saves checkpoints, and may be killed at any stage of a save.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "checkpoint/async_checkpointer.h"
#include "parallel/process_group.h"

namespace muster {

inline constexpr int64_t kNoWorker = std::numeric_limits<int64_t>::max();

inline void say(const std::string& name, const std::string& value) {
  std::printf("%s %s\n", name.c_str(), value.c_str());
  std::fflush(stdout);
}

struct SavingRank {
  // `mode`: "async", or anything else for saves that wait.
  SavingRank(const std::string& mode, std::string directory_given,
             const CheckpointPolicy& policy = {})
      : asynchronous(mode == "async"), directory(std::move(directory_given)) {
    const ProcessGroupOptions options{std::chrono::seconds(30), std::chrono::seconds(30)};
    group = make_process_group(topology, at::kCPU, options);
    ProcessGroupPtr side = make_side_group(group, "checkpoint", options);
    saver.emplace(
        CheckpointWriterOptions{.directory = directory,
                                .topology = topology,
                                .policy = policy,
                                .on_stage = [this](const char* stage) { passing(stage); }},
        std::move(side), std::chrono::seconds(30));
  }

  // KILL="rank stage" kills that rank at that stage, while `deadly` is set.
  void passing(const char* stage) const {
    const char* kill = std::getenv("KILL");
    const std::string here = std::to_string(topology.rank) + " " + stage;
    if (deadly && kill != nullptr && here == kill) ::kill(::getpid(), SIGKILL);
  }

  const Topology topology = Topology::from_environment();
  const bool asynchronous;
  const std::string directory;
  ProcessGroupPtr group;
  std::atomic<bool> deadly{false};
  std::optional<AsyncCheckpointer> saver;  // destroyed before the groups
};

}  // namespace muster
