// Checks a job's working directory and program before its ranks start, outside the control loop and
// for a bounded time: both may be on a network file system that hangs. Control loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/base/job_threads.h"
#include "worker/confinement/rank_account.h"
#include "worker/core/state.h"
#include "worker/launch/launch_environment.h"

namespace muster::worker {

class LaunchChecks {
 public:
  // `launch_errno` is ETIMEDOUT if the file system did not answer: the node's fault.
  using Done = std::function<void(std::optional<LaunchProblem>, std::vector<common::RankLaunch>)>;

  // `in_loop`: posts from a job's thread to the control loop.
  LaunchChecks(std::string node, bool has_own_tmp, JobThreads* threads,
               std::function<void(std::function<void()>)> in_loop, std::string shown = {})
      : node_(std::move(node)),
        has_own_tmp_(has_own_tmp),
        threads_(threads),
        in_loop_(std::move(in_loop)),
        shown_(std::move(shown)) {}

  // Whose rights the ranks have; on the check's thread.
  using Account = std::function<absl::StatusOr<RankAccount>()>;

  // In place of CheckLaunch, for ranks that do not run in the node's own file system.
  using Check = std::function<std::optional<LaunchProblem>(std::vector<common::RankLaunch>*)>;

  // `done` is called once, unless Cancel or another Start comes first. `last`: further work on the
  // job's files if nothing is wrong, on its thread, with the rights of the account; may be empty.
  void Start(const AttemptKey& key, std::vector<common::RankLaunch> ranks, Account account,
             std::function<void()> last, Done done, Check check = {});
  void Cancel(const AttemptKey& key) { running_.erase(key); }

  std::optional<int64_t> NextDeadlineMs() const;
  void OnTime(int64_t now_ms);

 private:
  struct Running {
    uint64_t number = 0;
    int64_t deadline_ms = 0;
    std::string workdir;
    Done done;
  };
  const std::string node_;
  const bool has_own_tmp_;  // ranks do not see this node's /tmp
  JobThreads* const threads_;
  const std::function<void(std::function<void()>)> in_loop_;
  const std::string shown_;  // of this directory ranks see what they need, even below /tmp
  uint64_t last_number_ = 0;
  std::map<AttemptKey, Running> running_;
};

}  // namespace muster::worker
