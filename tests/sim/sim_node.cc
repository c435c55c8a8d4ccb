#include "tests/sim/sim_node.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "common/base/version.h"
#include "common/hash/sha256.h"
#include "common/outputs.h"
#include "worker/core/invariants.h"
#include "worker/launch/shim_watch.h"

namespace muster::sim {
namespace {

using worker::ShimWatch;

// From the last answer to the shim's end: a question, and no answer to it.
constexpr int64_t kLostMs = ShimWatch::kAskEveryMs + ShimWatch::kLostMs;
constexpr int64_t kLostOverdueMs = ShimWatch::kAskStoppingMs + ShimWatch::kLostOverdueMs;
// How late the scheduler may run what was due while the machine stood still, and by when the ranks
// that had to be dead by then are.
constexpr int64_t kSchedulerMs = 20;
constexpr int64_t kTicksMs = 2 * kSchedulerMs + 10;
// One whose clocks stood still too learns it from the coordinator, or stops them at its own fence.
constexpr int64_t kUnawareMs = 600'000 + 5'000 + 20'000;

}  // namespace

SimNode::SimNode(EventQueue& queue, Witness& witness, std::string name, uint32_t devices,
                 Callbacks callbacks)
    : queue_(queue),
      witness_(witness),
      name_(std::move(name)),
      devices_(devices),
      callbacks_(std::move(callbacks)),
      wall_skew_ms_(queue.Draw(-3'600'000, 3'600'000)) {}

void SimNode::JoinHost(SimNode& other) {
  siblings_.push_back(&other);
  other.siblings_.push_back(this);
  other.host_ = host_;
}

void SimNode::After(int64_t delay_ms, std::function<void()> action) {
  const double real_ms = std::ceil(static_cast<double>(delay_ms) / host_->rate);
  queue_.After(static_cast<int64_t>(real_ms), [this, action = std::move(action)] {
    if (host_->still) return waiting_.push_back(action);
    action();
  });
}

void SimNode::GoOn(int64_t stood_ms, bool unaware) {
  if (!host_->still) return;
  host_->still = false;
  host_->excused_until_ms = queue_.now_ms() + kTicksMs;
  if (unaware) {
    host_->unaware_until_ms = queue_.now_ms() + kUnawareMs;
    host_->behind_ms += stood_ms;
    host_->wall_behind_ms = queue_.Chance(0.5) ? 0 : host_->wall_behind_ms + stood_ms;
  }
  GoOnAlone();
  for (SimNode* sibling : siblings_) sibling->GoOnAlone();
}

void SimNode::GoOnAlone() {
  for (auto& action : std::exchange(waiting_, {})) {
    After(queue_.Draw(0, kSchedulerMs), std::move(action));
  }
  int64_t at_ms = 0;
  for (auto& action : std::exchange(in_order_, {})) {
    at_ms = queue_.Draw(at_ms, kSchedulerMs);
    After(at_ms, std::move(action));
  }
}

// A directory that is a copy, or new, gets a separate incarnation.
void SimNode::LoadIdentity() {
  if (disk_.place == this && disk_.incarnation != 0) return;
  disk_.place = this;
  disk_.incarnation = static_cast<uint64_t>(queue_.Draw(1, int64_t{1} << 50));
  disk_.epoch = 0;
  disk_.lease_mono_ms = 0;
}

common::Now SimNode::Now() const {
  const auto lived_ms = static_cast<double>(queue_.now_ms() - host_->behind_ms);
  return {static_cast<int64_t>(lived_ms * host_->rate) + 1'000'000,
          queue_.now_ms() - host_->wall_behind_ms + wall_skew_ms_ + 1'700'000'000'000};
}

void SimNode::StartWorker() {
  if (host_->still) return in_order_.push_back([this] { StartWorker(); });
  if (worker_ != nullptr) return;
  ++process_;
  armed_ms_ = -1;
  ++clearing_;
  LoadIdentity();
  worker_ = std::make_unique<worker::WorkerState>();
  v1::NodeFacts& facts = worker_->facts;
  facts.set_name(name_);
  facts.set_incarnation(disk_.incarnation);
  facts.set_boot_id(absl::StrCat("boot-", boot_));
  facts.set_advertise("10.0.0." + name_);
  facts.set_protocol(common::kProtocol);
  facts.set_process(static_cast<uint64_t>(queue_.Draw(1, int64_t{1} << 50)));
  for (uint32_t i = 0; i < devices_; ++i) {
    v1::Device* device = facts.add_devices();
    device->set_kind("cpu");
    device->set_index(i);
  }
  worker_->highest_epoch = disk_.epoch;
  worker_->contact.last_heard_mono_ms = Now().mono_ms;
  worker_->contact.lease_mono_ms = disk_.lease_mono_ms > 0 ? disk_.lease_mono_ms : Now().mono_ms;
  RestoreAttempts();
  callbacks_.dial(*this);
}

// What a restarted worker finds: launch records, live shims, exit records. It changes nothing.
void SimNode::RestoreAttempts() {
  unsettled_.clear();
  const std::map<Key, v1::LaunchAttempt> launches = disk_.launches;
  for (const auto& [key, launch] : launches) {
    if (launch.part().incarnation() != disk_.incarnation) continue;  // disowned
    const auto found = shims_.find(key);
    const bool spawned = found != shims_.end() && found->second.spawned;
    const bool damaged = disk_.damaged.contains(key);
    v1::LaunchAttempt known;
    known.set_job(key.job);
    known.set_attempt(key.attempt);
    Feed(worker::RestoredInput{key, damaged ? known : launch,
                               spawned ? static_cast<uint32_t>(found->second.ranks.size()) : 0});
    if (damaged || !spawned || !found->second.alive) {
      unsettled_.insert(key);
      continue;
    }
    for (const v1::RankExit& exit : found->second.exits) Feed(worker::RankExitedInput{key, exit});
    for (const int64_t step : disk_.checkpoints[key]) {
      Feed(worker::CheckpointFoundInput{key, step, 0, 0});
    }
  }
}

// An attempt that no living shim belongs to.
void SimNode::Settle(const Key& key) {
  if (unsettled_.erase(key) == 0) return;
  const auto found = shims_.find(key);
  if (found == shims_.end() || !found->second.spawned) {
    Feed(worker::AttemptEndedInput{key, "no shim was started",
                                   "the worker was restarted before it had started the ranks",
                                   v1::STOP_CAUSE_SUPERVISOR_LOST});
    return;
  }
  if (KillShim(key)) {
    Feed(worker::AttemptEndedInput{key, "killed because its record was damaged", "damaged",
                                   v1::STOP_CAUSE_SUPERVISOR_LOST});
    return;
  }
  const std::vector<v1::RankExit> exits = found->second.exits;
  for (const v1::RankExit& exit : exits) Feed(worker::RankExitedInput{key, exit});
  Feed(worker::AttemptEndedInput{key, "empty", "", {}});
}

// Takes a moment; whatever is alive here under this node's name and not held is killed.
void SimNode::ClearHost() {
  const uint64_t process = process_, clearing = ++clearing_;
  After(queue_.Draw(1, 3'000), [this, process, clearing] {
    if (process != process_ || clearing != clearing_) return;
    const std::set<Key> unsettled = unsettled_;
    for (const Key& key : unsettled) Settle(key);
    std::vector<Key> left;
    for (const auto& [key, shim] : shims_) {
      if (!worker_->attempts.contains(key)) left.push_back(key);
    }
    for (const Key& key : left) {
      const bool alive = KillShim(key);
      disk_.launches.erase(key);
      shims_.erase(key);
      if (alive) Feed(worker::LeftoverInput{key, "its record was lost"});
    }
    for (SimNode* sibling : siblings_) {
      std::vector<Key> theirs;
      for (const auto& [key, shim] : sibling->shims_) theirs.push_back(key);
      for (const Key& key : theirs) {
        if (sibling->KillShim(key)) Feed(worker::LeftoverInput{key, "another worker left it"});
      }
    }
    Feed(worker::HostClearedInput{});
  });
}

bool SimNode::KillShim(const Key& key) {
  const auto found = shims_.find(key);
  if (found == shims_.end() || !found->second.spawned || !found->second.alive) return false;
  found->second.alive = false;
  for (size_t i = 0; i < found->second.ranks.size(); ++i) EndRank(key, i, 0, SIGKILL, false);
  found->second.exits.clear();  // no one saw how they ended
  if (unsettled_.contains(key)) return true;
  Feed(worker::AttemptEndedInput{key, "killed after its shim was lost", "its supervisor died",
                                 v1::STOP_CAUSE_SUPERVISOR_LOST});
  return true;
}

// The worker pings its shims.
void SimNode::WatchSilence(const Key& key, int64_t patience_ms) {
  const uint64_t process = process_;
  After(patience_ms, [this, process, key] {
    if (process == process_ && worker_ != nullptr && shims_.contains(key)) KillShim(key);
  });
}

void SimNode::StopOneShim() {
  if (worker_ == nullptr) return;  // without a worker nothing watches a shim: see KillWorker
  for (auto& [key, shim] : shims_) {
    if (!shim.alive || !shim.spawned || shim.stopped) continue;
    shim.stopped = true;
    return WatchSilence(key, shim.stopping ? kLostOverdueMs : kLostMs);
  }
}

void SimNode::DamageOneRecord() {
  KillWorker();
  for (const auto& [key, launch] : disk_.launches) {
    if (disk_.damaged.insert(key).second) return;
  }
}

void SimNode::LoseIdentity() {
  KillWorker();
  disk_.incarnation = 0;
}

void SimNode::KillWorker() {
  if (worker_ == nullptr) return;
  worker_.reset();
  ++process_;
  // Stopping a shim and killing its worker removes both guards of the fence: nothing is promised
  // then.
  for (auto& [key, shim] : shims_) {
    if (shim.stopped) KillShim(key);
  }
  if (link_ != 0) callbacks_.hang_up(*this, std::exchange(link_, 0));
}

void SimNode::KillOneShim() {
  for (auto& [key, shim] : shims_) {
    if (!shim.alive || !shim.spawned) continue;
    KillShim(key);
    return;
  }
}

void SimNode::Reboot() {
  RebootAlone();
  for (SimNode* sibling : siblings_) sibling->RebootAlone();
}

void SimNode::RebootAlone() {
  KillWorker();
  ++boot_;
  for (auto& [key, shim] : shims_) {
    for (Rank& rank : shim.ranks) {
      if (std::exchange(rank.alive, false)) witness_.RankEnds(key.job, key.attempt, rank.number);
    }
  }
  shims_.clear();
  // The state directory is reread: every attempt of the old boot is dead, which is reported by
  // omitting it.
  disk_.launches.clear();
  disk_.checkpoints.clear();
  disk_.damaged.clear();
}

void SimNode::LinkUp(uint64_t link) {
  if (worker_ == nullptr) return;
  link_ = link;
  Feed(worker::LinkUpInput{});
}

void SimNode::LinkDown(uint64_t link) {
  if (host_->still) return in_order_.push_back([this, link] { LinkDown(link); });
  if (link != link_) return;
  link_ = 0;
  if (worker_ == nullptr) return;
  Feed(worker::LinkDownInput{});
  const uint64_t process = process_;
  After(queue_.Draw(50, 5000), [this, process] {
    if (process == process_ && link_ == 0) callbacks_.dial(*this);
  });
}

void SimNode::Receive(uint64_t link, const v1::CoordinatorMessage& message) {
  if (host_->still) {
    return in_order_.push_back([this, link, message] { Receive(link, message); });
  }
  if (link == link_ && worker_ != nullptr) Feed(worker::CommandInput{message});
}

void SimNode::Feed(worker::Input input) {
  if (worker_ == nullptr) return;
  const uint64_t process = process_;
  const worker::Actions actions = worker::Decide(*worker_, input, Now());
  if (const std::string broken = worker::BrokenInvariant(*worker_); !broken.empty())
    throw Broken(absl::StrCat("worker ", name_, ": not true: ", broken));
  disk_.lease_mono_ms = worker_->contact.lease_mono_ms;
  for (const worker::Action& action : actions) {
    if (process != process_) return;
    Do(action);
  }
  ArmTimer();
}

void SimNode::FeedLater(int64_t delay_ms, worker::Input input) {
  const uint64_t process = process_;
  After(delay_ms, [this, process, input = std::move(input)] {
    if (process == process_) Feed(input);
  });
}

void SimNode::ArmTimer() {
  if (worker_ == nullptr) return;
  const auto deadline = worker::NextDeadlineMonoMs(*worker_);
  if (!deadline.has_value() || (armed_ms_ >= 0 && armed_ms_ <= *deadline)) return;
  armed_ms_ = *deadline;
  const uint64_t process = process_;
  After(std::max<int64_t>(*deadline - Now().mono_ms, 1), [this, process] {
    if (process != process_) return;
    armed_ms_ = -1;
    Feed(worker::TickInput{});
  });
}

void SimNode::Do(const worker::Action& action) {
  using namespace worker;
  if (const auto* send = std::get_if<SendAction>(&action)) {
    if (link_ != 0) callbacks_.send(*this, link_, send->message);
  } else if (std::holds_alternative<ResetLinkAction>(action)) {
    if (link_ == 0) return;
    const uint64_t link = link_;
    callbacks_.hang_up(*this, link);
    LinkDown(link);
  } else if (std::holds_alternative<ClearHostAction>(action)) {
    ClearHost();
  } else if (std::holds_alternative<AbandonClearingAction>(action)) {
    ++clearing_;
  } else if (const auto* epoch = std::get_if<PersistEpochAction>(&action)) {
    disk_.epoch = epoch->epoch;
  } else if (const auto* hold = std::get_if<PrepareAttemptAction>(&action)) {
    FeedLater(queue_.Draw(0, 3),
              AttemptPreparedInput{hold->key, hold->order.count() > 0 ? next_port_++ : 0});
  } else if (const auto* prepare = std::get_if<RecordLaunchAction>(&action)) {
    disk_.launches[prepare->key] = prepare->launch;
    // Ranks of older attempts of the job that are here contrary to all records.
    for (auto& [key, shim] : shims_) {
      if (key.job == prepare->key.job && key != prepare->key) KillShim(key);
    }
    for (SimNode* sibling : siblings_) {
      for (auto& [key, shim] : sibling->shims_) {
        if (key.job == prepare->key.job && key != prepare->key) sibling->KillShim(key);
      }
    }
    FeedLater(queue_.Draw(1, 20), LaunchRecordedInput{prepare->key});
  } else if (const auto* fetch = std::get_if<FetchAction>(&action)) {
    FeedLater(queue_.Draw(1, 3000),
              FetchedInput{fetch->key, queue_.Chance(0.02) ? "the link broke" : ""});
  } else if (const auto* spawn = std::get_if<SpawnAction>(&action)) {
    Spawn(spawn->key);
    MoveFence(spawn->key, spawn->fence_mono_ms);
  } else if (const auto* fence = std::get_if<MoveFenceAction>(&action)) {
    MoveFence(fence->key, fence->fence_mono_ms);
  } else if (const auto* stop = std::get_if<StopShimAction>(&action)) {
    unsettled_.contains(stop->key) ? Settle(stop->key)
                                   : StopShim(stop->key, Now().mono_ms + stop->grace_ms);
  } else if (const auto* kill = std::get_if<KillRanksAction>(&action)) {
    KillRanks(kill->key);
  } else if (const auto* upload = std::get_if<UploadAction>(&action)) {
    v1::CheckpointPartReady ready;
    ready.set_job(upload->key.job);
    ready.set_attempt(upload->key.attempt);
    ready.set_step(upload->step);
    ready.set_part(upload->part);
    ready.set_parts(std::max<uint32_t>(upload->parts, 1));
    v1::CheckpointFile* file = ready.add_files();
    file->set_path(upload->step == common::kOutputsStep ? "out/model" : "model");
    file->set_part(upload->part);
    file->set_sha256(common::Sha256Hex(
        absl::StrCat(KeyText(upload->key), "/", upload->step, "/", upload->part)));
    file->set_size(1);
    const std::string sha256 = file->sha256();
    const uint64_t process = process_;
    After(queue_.Draw(1, 2000), [this, process, ready, sha256] {
      if (process != process_) return;
      callbacks_.store_blob(sha256);
      Feed(UploadDoneInput{ready});
    });
  } else if (const auto* save = std::get_if<worker::RequestSaveAction>(&action)) {
    SaveIfAsked(save->key);
  } else if (const auto* old = std::get_if<DeleteStepAction>(&action)) {
    disk_.checkpoints[old->key].erase(old->step);
  } else if (const auto* scan = std::get_if<FinalScanAction>(&action)) {
    for (const int64_t step : disk_.checkpoints[scan->key]) {
      FeedLater(0, CheckpointFoundInput{scan->key, step, 0, 0});
    }
    FeedLater(1, FinalScanDoneInput{scan->key});
    FeedLater(queue_.Draw(1, 500), OutputDrainedInput{scan->key});
  } else if (const auto* erase = std::get_if<DeleteAttemptAction>(&action)) {
    disk_.launches.erase(erase->key);
    disk_.damaged.erase(erase->key);
    disk_.checkpoints.erase(erase->key);
    shims_.erase(erase->key);
  }
}

void SimNode::Spawn(const Key& key) {
  const v1::LaunchAttempt& launch = disk_.launches.at(key);
  Shim& shim = shims_[key];
  shim.spawned = true;
  shim.grace_ms = launch.spec().grace_ms();
  const Behavior behavior = callbacks_.behavior(key.job);
  const bool fails = queue_.Chance(behavior.fail_chance);
  for (uint32_t i = 0; i < launch.part().local_world_size(); ++i) {
    const uint32_t number = launch.part().first_rank() + i;
    shim.ranks.push_back({number, true, queue_.now_ms()});
    witness_.RankStarts(
        key.job, key.attempt, number,
        {launch.world_size(), absl::StrCat(launch.master_addr(), ":", launch.master_port())},
        *host_);
    const bool this_fails = fails && queue_.Chance(0.5);
    const int64_t lasts =
        this_fails ? queue_.Draw(1, behavior.run_ms) : behavior.run_ms + queue_.Draw(0, 50);
    After(lasts, [this, key, i, this_fails] { EndRank(key, i, this_fails ? 1 : 0, 0, false); });
  }
  if (launch.is_master() && behavior.checkpoint_ms > 0) SaveCheckpoint(key);
  FeedLater(1, worker::RanksStartedInput{key, static_cast<uint32_t>(shim.ranks.size())});
}

// Some programs do not know of such requests, and some take longer than they have.
void SimNode::SaveIfAsked(const Key& key) {
  const auto launch = disk_.launches.find(key);
  if (launch == disk_.launches.end() || !launch->second.is_master() || queue_.Chance(0.4)) return;
  After(queue_.Draw(10, 15'000), [this, key] {
    const auto found = shims_.find(key);
    if (found == shims_.end() || !found->second.ranks[0].alive) return;
    if (!disk_.launches.contains(key)) return;
    // Between the steps of its other checkpoints.
    const int64_t step = 1'000'000'000 + queue_.now_ms();
    disk_.checkpoints[key].insert(step);
    Feed(worker::CheckpointFoundInput{key, step, 0, 0});
  });
}

void SimNode::SaveCheckpoint(const Key& key) {
  const int64_t every = callbacks_.behavior(key.job).checkpoint_ms;
  After(every, [this, key, every] {
    const auto found = shims_.find(key);
    if (found == shims_.end() || !found->second.ranks[0].alive) return;
    const auto launch = disk_.launches.find(key);
    if (launch == disk_.launches.end()) return;  // a different state is there by now
    const int64_t resumed = std::max<int64_t>(launch->second.resume_step(), 0);
    const int64_t step = resumed + (queue_.now_ms() - found->second.ranks[0].started_ms) / every;
    disk_.checkpoints[key].insert(step);
    Feed(worker::CheckpointFoundInput{key, step, 0, 0});
    SaveCheckpoint(key);
  });
}

void SimNode::EndRank(const Key& key, size_t index, int code, int signal, bool by_us) {
  const auto found = shims_.find(key);
  if (found == shims_.end() || index >= found->second.ranks.size()) return;
  Shim& shim = found->second;
  if (!std::exchange(shim.ranks[index].alive, false)) return;
  witness_.RankEnds(key.job, key.attempt, shim.ranks[index].number);
  if (!shim.alive || shim.stopped) return;
  v1::RankExit exit;
  exit.set_rank(shim.ranks[index].number);
  exit.set_exit_code(code);
  exit.set_signal(signal);
  exit.set_stopped_by_us(by_us);
  exit.set_since_start_us((queue_.now_ms() - shim.ranks[index].started_ms) * 1000);
  shim.exits.push_back(exit);
  FeedLater(1, worker::RankExitedInput{key, exit});
  const bool empty = std::none_of(shim.ranks.begin(), shim.ranks.end(),
                                  [](const Rank& rank) { return rank.alive; });
  if (empty) After(queue_.Draw(1, 20), [this, key] { ShimIsEmpty(key); });
}

void SimNode::ShimIsEmpty(const Key& key) {
  const auto found = shims_.find(key);
  if (found == shims_.end() || !std::exchange(found->second.alive, false)) return;
  Feed(worker::AttemptEndedInput{key, "empty", "", {}});
}

// The shim's own fence, which does not need a worker.
void SimNode::MoveFence(const Key& key, int64_t fence_mono_ms) {
  const auto found = shims_.find(key);
  if (found == shims_.end() || !found->second.alive) return;
  found->second.fence_mono_ms = fence_mono_ms;
  if (fence_mono_ms != 0) ArmFence(key);
}

void SimNode::ArmFence(const Key& key) {
  const int64_t fence_mono_ms = shims_.at(key).fence_mono_ms;
  After(fence_mono_ms - Now().mono_ms, [this, key, fence_mono_ms] {
    const auto shim = shims_.find(key);
    if (shim == shims_.end() || shim->second.fence_mono_ms != fence_mono_ms) return;
    if (Now().mono_ms < fence_mono_ms) return ArmFence(key);  // its clock stood still
    StopShim(key, fence_mono_ms + shim->second.grace_ms);
  });
}

// SIGTERM, unless it is late; some ranks do not heed it. A later stop can only be shorter.
void SimNode::StopShim(const Key& key, int64_t kill_mono_ms) {
  const auto found = shims_.find(key);
  if (found == shims_.end() || !found->second.alive) return;
  Shim& shim = found->second;
  if (shim.stopped) return WatchSilence(key, kLostOverdueMs);
  const bool first = !std::exchange(shim.stopping, true);
  if (!first && shim.kill_mono_ms <= kill_mono_ms) return;
  shim.kill_mono_ms = kill_mono_ms;
  const int64_t left_ms = kill_mono_ms - Now().mono_ms;
  for (size_t i = 0; first && left_ms > 0 && i < shim.ranks.size(); ++i) {
    After(queue_.Draw(1, 6'000), [this, key, i] { EndRank(key, i, 0, SIGTERM, true); });
  }
  After(left_ms, [this, key, kill_mono_ms] {
    const auto shim = shims_.find(key);
    if (shim == shims_.end() || shim->second.stopped) return;
    if (shim->second.kill_mono_ms == kill_mono_ms) KillRanks(key);
  });
}

void SimNode::KillRanks(const Key& key) {
  const auto found = shims_.find(key);
  if (found == shims_.end()) return;
  for (size_t i = 0; i < found->second.ranks.size(); ++i) EndRank(key, i, 0, SIGKILL, true);
}

}  // namespace muster::sim
