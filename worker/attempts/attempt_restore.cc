// How a starting worker handles its state directory, and how it clears its host once the
// coordinator has accepted it. Part of AttemptProcesses (attempt_processes.h).
//
// Before acceptance nothing is killed and nothing is written: a worker that is refused, because its
// state is a copy or another worker speaks for the node, leaves no trace. Afterwards only the
// processes of living shims are spared: the lock on a shim's launch file proves that it belongs
// here.
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/attempts/attempt_processes.h"
#include "worker/confinement/rank_token.h"
#include "worker/confinement/secret_files.h"
#include "worker/launch/launch_record.h"
#include "worker/output/trainer_socket.h"

namespace muster::worker {
namespace {

constexpr int kSweepTurnMs = 1'000;  // for each mark; this worker's shutdown waits no longer

// Rebuilds the launch of an attempt whose launch.pb is lost, so that its output can still be
// delivered.
v1::LaunchAttempt LaunchFromOrder(const AttemptKey& key, const common::ShimLaunch* order) {
  v1::LaunchAttempt launch;
  launch.set_job(key.job);
  launch.set_attempt(key.attempt);
  if (order == nullptr || order->ranks.empty()) return launch;
  launch.mutable_part()->set_first_rank(order->ranks.front().rank);
  launch.mutable_part()->set_local_world_size(static_cast<uint32_t>(order->ranks.size()));
  return launch;
}

bool IsSameDirectory(const std::string& one, const std::string& other) {
  std::error_code error;
  return std::filesystem::equivalent(one, other, error) && !error;
}

}  // namespace

struct AttemptProcesses::Sweep {
  common::CgroupHost cgroups;
  std::vector<std::string> tags;
  std::set<std::string> spared_marks;  // marks of living shims
  std::set<AttemptKey> spared_keys;    // their shim may start at any time
  std::vector<std::string> disowned;   // directories to remove

  bool Wants(const AttemptMark& mark) const {
    return std::find(tags.begin(), tags.end(), mark.tag) != tags.end() &&
           !spared_marks.contains(mark.text) && !spared_keys.contains({mark.job, mark.attempt});
  }
};

void AttemptProcesses::SetCluster(const std::string& cluster_id) { tags_ = TagsOf(cluster_id); }

std::vector<std::string> AttemptProcesses::TagsOf(const std::string& cluster_id) const {
  std::vector<std::string> tags;
  if (!cluster_id.empty()) tags.push_back(NodeTag(cluster_id, setup_.node));
  // For attempts that started before the cluster had an id.
  for (const std::string& address : setup_.coordinators)
    tags.push_back(NodeTag(address, setup_.node));
  return tags;
}

// ---------------------------------------------------------------- at startup

void AttemptProcesses::Restore(const LoadedIdentity& identity) {
  new_boot_ = identity.new_boot;
  new_container_ = identity.new_container;
  incarnation_ = identity.identity.incarnation;
  const auto names = common::ListDirectory(setup_.paths.Attempts());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const auto key = ParseKey(name);
    if (!key) continue;
    if (identity.kept) {
      RestoreOne(*key);
    } else {
      disowned_.push_back(setup_.paths.AttemptDir(*key));
    }
  }
  std::set<AttemptKey> adopted;
  for (const auto& [key, shim] : shims_) adopted.insert(key);
  RemoveSecretsOfOthers(setup_.paths, adopted);
}

void AttemptProcesses::RestoreOne(const AttemptKey& key) {
  const std::string directory = setup_.paths.AttemptDir(key);
  const auto launch = ReadLaunchRecord(setup_.paths.Launch(key), key);
  auto order = ReadShimLaunch(directory);
  if (absl::IsNotFound(launch.status()) && absl::IsNotFound(order.status())) {
    // The worker died before launch.pb was complete: nothing was started.
    disowned_.push_back(directory);
    return;
  }
  // From an older incarnation, or from the directory that this one was copied from: the coordinator
  // treats it as ended once this host is clear, and its marks identify its owner.
  const uint64_t incarnation = launch.ok() ? launch->part().incarnation() : 0;
  if ((incarnation != 0 && incarnation != incarnation_) ||
      (order.ok() && !IsSameDirectory(order->attempt_dir, directory))) {
    disowned_.push_back(directory);
    return;
  }
  Unsettled found;
  found.started = !absl::IsNotFound(order.status());
  const bool order_fits =
      order.ok() && order->job == key.job && order->attempt == key.attempt &&
      (!launch.ok() || launch->part().local_world_size() == order->ranks.size());
  if (order_fits) {
    for (common::RankLaunch& rank : order->ranks) std::vector<std::string>().swap(rank.env);
    found.order = std::make_shared<common::ShimLaunch>(*std::move(order));
  }
  if (!launch.ok()) {
    found.damage = "launch.pb";
  } else if (found.started && !order_fits) {
    found.damage = common::kLaunchFileName;
  }
  found.launch = launch.ok() ? *launch : LaunchFromOrder(key, found.order.get());
  callbacks_.note(common::StrCat("found job=", key.job, " attempt=", key.attempt,
                                 found.damage.empty() ? "" : " damaged=", found.damage));
  callbacks_.input(RestoredInput{key, found.launch, 0});
  if (found.damage.empty() && found.started && Adopt(key, found.launch)) return;
  unsettled_[key] = std::move(found);
}

bool AttemptProcesses::Adopt(const AttemptKey& key, const v1::LaunchAttempt& launch) {
  absl::StatusOr<std::unique_ptr<ShimClient>> client =
      ShimClient::Adopt(setup_.paths.AttemptDir(key));
  if (!client.ok()) {
    callbacks_.note(common::StrCat("no shim job=", key.job, " attempt=", key.attempt, " reason=\"",
                                   common::MessageOf(client.status()), "\""));
    return false;
  }
  const common::ShimLaunch& order = (*client)->launch();
  absl::StatusOr<common::UniqueFd> listener = ListenToRanks(
      key, order.sandbox.has_own_mounts || !order.container.runtime.empty(), order.account);
  io_->Open(key, launch, listener.ok() ? *std::move(listener) : common::UniqueFd(),
            ReadRankPass(setup_.paths, key, order.account));
  Shim& shim = shims_[key];
  shim.client = *std::move(client);
  shim.launch = launch;
  shim.watch = std::make_unique<ShimWatch>(common::MonotonicMs());
  return true;
}

// ---------------------------------------------------------------- once accepted

void AttemptProcesses::ClearHost(const ClearHostAction& action) {
  const uint64_t clearing = ++clearing_;
  for (const auto& [key, found] : std::exchange(unsettled_, {})) Settle(key, found);
  auto sweep = std::make_shared<Sweep>();
  sweep->cgroups = setup_.cgroups;
  sweep->tags = tags_;
  for (const auto& [key, shim] : shims_) sweep->spared_marks.insert(shim.client->launch().mark);
  sweep->spared_keys.insert(action.live.begin(), action.live.end());
  sweep->disowned = std::exchange(disowned_, {});
  ClearOnce(std::move(sweep), clearing, "");
}

void AttemptProcesses::ClearOnce(std::shared_ptr<const Sweep> sweep, uint64_t clearing,
                                 const std::string& said) {
  callbacks_.in_background([this, sweep, clearing, said] {
    absl::StatusOr<std::vector<AttemptMark>> ended = EndMarked(
        sweep->cgroups, [&](const AttemptMark& mark) { return sweep->Wants(mark); }, kSweepTurnMs);
    for (const std::string& directory : sweep->disowned) {
      if (!ended.ok()) break;
      // A living shim holds a lock on its file: it belongs to this very directory, whatever its
      // mark.
      const common::KillResult rest =
          ShimLives(directory) ? KillAttempt(directory, kSweepTurnMs) : common::KillResult();
      if (!rest.empty) ended = absl::UnavailableError(common::StrCat(directory, ": ", rest.how));
      if (ended.ok()) common::RemoveTree(directory).IgnoreError();
    }
    callbacks_.in_loop([this, sweep, clearing, said, ended] {
      if (clearing != clearing_) return;
      if (ended.ok()) return HostIsClear(*ended);
      // Processes in uninterruptible sleep: until they are gone, no job may start here.
      if (common::MessageOf(ended.status()) != said) {
        callbacks_.note(common::StrCat("an attempt of an older worker is still alive reason=\"",
                                       common::MessageOf(ended.status()), "\""));
      }
      ClearOnce(sweep, clearing, common::MessageOf(ended.status()));
    });
  });
}

void AttemptProcesses::HostIsClear(const std::vector<AttemptMark>& ended) {
  for (const AttemptMark& mark : ended) {
    callbacks_.note(common::StrCat("killed what an older worker left mark=", mark.text));
    callbacks_.input(
        LeftoverInput{{mark.job, mark.attempt},
                      common::StrCat("processes of this attempt were alive on node ", setup_.node,
                                     " whose worker has no record of it; they were killed")});
  }
  callbacks_.note("host cleared");
  callbacks_.input(HostClearedInput{});
}

void AttemptProcesses::Settle(const AttemptKey& key, const Unsettled& found) {
  io_->Open(key, found.launch, common::UniqueFd());
  const auto record = ReadExitRecord(setup_.paths.AttemptDir(key));
  if (record.ok() && record->job == key.job && record->attempt == key.attempt) {
    return FromExitRecord(key, found.launch, *record);
  }
  AttemptEndedInput end{key};
  if (new_boot_) {
    end.how = "new boot";
    end.failure = common::StrCat("node ", setup_.node, " was rebooted");
    end.failure_cause = v1::STOP_CAUSE_NODE_LOST;
  } else if (new_container_) {
    end.how = "new container";
    end.failure = common::StrCat("the container of node ", setup_.node, " was restarted");
    end.failure_cause = v1::STOP_CAUSE_NODE_LOST;
  } else if (!found.damage.empty()) {
    end.how = "killed because its record was damaged";
    end.failure = common::StrCat("the record of the attempt on node ", setup_.node, " (",
                                 found.damage, ") was damaged; its ranks there were killed");
    end.failure_cause = v1::STOP_CAUSE_SUPERVISOR_LOST;
  } else if (!found.started) {
    end.how = "never launched";
    end.failure = "the worker was restarted before it started the ranks";
    end.failure_cause = v1::STOP_CAUSE_LAUNCH_INTERRUPTED;
  } else {
    end = ShimWasKilled(key);
  }
  ProveEnd(key, end, found.order);
}

// ---------------------------------------------------------------- before every launch

void AttemptProcesses::EndOlderAttempts(const AttemptKey& key, std::function<void()> done,
                                        const std::string& said) {
  if (key.attempt == 0) return done();  // there is no older attempt
  callbacks_.in_background([this, key, done, said, tags = tags_] {
    const auto ended = EndMarked(
        setup_.cgroups,
        [&](const AttemptMark& mark) {
          return mark.job == key.job && mark.attempt != key.attempt &&
                 std::find(tags.begin(), tags.end(), mark.tag) != tags.end();
        },
        kSweepTurnMs);
    callbacks_.in_loop([this, key, done, said, status = ended.status()] {
      if (status.ok()) return done();
      if (common::MessageOf(status) != said) {
        callbacks_.note(common::StrCat("an older attempt is still alive job=", key.job, " attempt=",
                                       key.attempt, " reason=\"", common::MessageOf(status), "\""));
      }
      EndOlderAttempts(key, done, common::MessageOf(status));
    });
  });
}

}  // namespace muster::worker
