#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/scheduling/pass.h"
#include "coordinator/core/state/state.h"

namespace muster::sim {
namespace {

constexpr int64_t kStormMs = 40 * 60'000;  // faults happen for this long …
constexpr int64_t kSettleMs =
    24 * 3'600'000;  // … and everything is over this long after they stop (J12)
constexpr uint32_t kGraceMs = 5'000;

}  // namespace

World::World(uint64_t seed, bool trace) : queue_(seed), witness_(queue_) {
  queue_.trace = trace;
  coordinator_ = std::make_unique<SimCoordinator>(
      queue_, witness_,
      SimCoordinator::Callbacks{
          [this](const coordinator::Command& command, uint64_t epoch) { Deliver(command, epoch); },
          [this] { CoordinatorKilled(); },
          [this](const std::string& sha256) { return blobs_.contains(sha256); }});
  AddNodes();
  jobs_to_submit_ = static_cast<uint64_t>(queue_.Draw(3, 12));
}

std::unique_ptr<SimNode> World::MakeNode(const std::string& name) {
  return std::make_unique<SimNode>(
      queue_, witness_, name, static_cast<uint32_t>(queue_.Draw(1, 4)),
      SimNode::Callbacks{[this](SimNode& node, uint64_t link, v1::WorkerMessage message) {
                           FromNode(node, link, std::move(message));
                         },
                         [this](SimNode& node) { Dial(node); },
                         [this](SimNode&, uint64_t link) { HangUp(link); },
                         [this](uint64_t job) { return BehaviorOf(job); },
                         [this](const std::string& sha256) { blobs_.insert(sha256); }});
}

void World::AddNodes() {
  const int64_t count = queue_.Draw(1, 5);
  for (int64_t i = 0; i < count; ++i) {
    nodes_.push_back(MakeNode(std::string(1, static_cast<char>('a' + i))));
    others_.push_back(MakeNode(nodes_.back()->name()));
    others_.back()->JoinHost(*nodes_.back());
  }
  others_.push_back(MakeNode("x"));
}

int64_t World::Latency() {
  return queue_.Chance(0.03) ? queue_.Draw(50, 14000) : queue_.Draw(0, 5);
}

Behavior World::BehaviorOf(uint64_t job) {
  const auto found = behaviors_.find(job);
  if (found != behaviors_.end()) return found->second;
  Behavior behavior;
  behavior.run_ms =
      queue_.Chance(0.25) ? queue_.Draw(600'000, 2'400'000) : queue_.Draw(10, 300'000);
  behavior.fail_chance = queue_.Chance(0.4) ? 0.5 : 0;
  behavior.checkpoint_ms = queue_.Chance(0.6) ? queue_.Draw(1'000, 30'000) : 0;
  return behaviors_[job] = behavior;
}

// ---------------------------------------------------------------- network

void World::Dial(SimNode& node) {
  queue_.After(Latency(), [this, &node] {
    if (!node.worker_alive() || node.link() != 0) return;
    if (!coordinator_->alive() || partitioned_.contains(node.name()) || node.still()) {
      queue_.After(queue_.Draw(50, 5000), [this, &node] {
        if (node.worker_alive() && node.link() == 0) Dial(node);
      });
      return;
    }
    const uint64_t link = next_link_++;
    links_[link] = {&node, 0, 0, false};
    node.LinkUp(link);
  });
}

void World::HangUp(uint64_t link) {
  const auto found = links_.find(link);
  if (found == links_.end() || std::exchange(found->second.closed, true)) return;
  SimNode& node = *found->second.node;
  // Each end notices after a while; a partitioned end much later, when its keepalive fails.
  const int64_t delay =
      partitioned_.contains(node.name()) ? queue_.Draw(10'000, 40'000) : Latency();
  queue_.After(delay, [this, link, &node] {
    coordinator_->Take(coordinator::WorkerGoneInput{link, node.name()});
  });
  queue_.After(Latency(), [link, &node] { node.LinkDown(link); });
}

void World::FromNode(SimNode& node, uint64_t link, v1::WorkerMessage message) {
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.closed || partitioned_.contains(node.name())) return;
  if (message.has_attempt_status() && queue_.Chance(0.2)) {
    old_reports_.emplace_back(node.name(), message.attempt_status());
  }
  int64_t& last = found->second.last_up_ms;
  last = std::max(last, queue_.now_ms() + Latency());
  queue_.After(last - queue_.now_ms(), [this, &node, link, message = std::move(message)] {
    if (links_[link].closed || !coordinator_->alive()) return;
    if (!message.has_register_()) {
      coordinator_->Take(coordinator::WorkerSaidInput{link, node.name(), message});
      return;
    }
    coordinator_->Take(coordinator::WorkerRegisteredInput{link, message.register_()},
                       [this, link](const coordinator::Reply& reply) {
                         if (!reply.status.ok()) HangUp(link);
                       });
  });
}

void World::Deliver(const coordinator::Command& command, uint64_t epoch) {
  // Only an accepted registration takes over the node from an older stream.
  if (command.message.has_registered()) {
    const coordinator::Node* node = coordinator::FindNode(coordinator_->state(), command.node);
    link_of_node_[command.node] = node == nullptr ? 0 : node->session;
  }
  const uint64_t link = link_of_node_[command.node];
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.closed || partitioned_.contains(command.node)) return;
  v1::CoordinatorMessage message = command.message;
  message.set_epoch(epoch);
  SimNode& node = *found->second.node;
  const int copies = queue_.Chance(0.03) ? 2 : 1;  // commands may be repeated
  for (int i = 0; i < copies; ++i) {
    int64_t& last = found->second.last_down_ms;
    last = std::max(last, queue_.now_ms() + Latency());
    queue_.After(last - queue_.now_ms(), [this, link, &node, message] {
      if (!links_[link].closed && !partitioned_.contains(node.name())) node.Receive(link, message);
    });
  }
}

void World::CoordinatorKilled() {
  link_of_node_.clear();
  for (auto& [id, link] : links_) {
    if (std::exchange(link.closed, true)) continue;
    SimNode& node = *link.node;
    queue_.After(Latency(), [id = id, &node] { node.LinkDown(id); });
  }
}

// ---------------------------------------------------------------- client

void World::SubmitLater(uint64_t number) {
  queue_.After(queue_.Draw(0, kStormMs), [this, number] { Submit(number); });
}

// Resends the same request until it is acknowledged: requests and answers get lost.
void World::Submit(uint64_t number) {
  const std::string key = absl::StrCat("key-", number);
  coordinator::SubmitInput input;
  input.caller.principal = "uid:1";
  input.request.set_idempotency_key(key);
  input.request.set_queue_anyway(true);
  v1::JobSpec* spec = input.request.mutable_spec();
  spec->add_command("train");
  spec->set_workdir("/");
  if (number % 3 != 1) spec->add_outputs("out");
  spec->mutable_shape()->set_processes(1 + number % 4);
  spec->mutable_shape()->mutable_device()->set_kind("cpu");
  spec->set_restarts(number % 3);
  spec->set_grace_ms(kGraceMs);
  spec->set_priority(static_cast<int32_t>(number % 2));
  spec->set_on_node_loss(number % 5 == 0 ? v1::ON_NODE_LOSS_WAIT : v1::ON_NODE_LOSS_REPLACE);
  spec->set_node_loss_restarts(1000);
  queue_.After(queue_.Draw(1'000, 10'000), [this, number, key] {
    if (!witness_.acknowledged().contains(key)) Submit(number);
  });
  if (queue_.Chance(0.1)) return;  // the request is lost
  const bool answer_lost = queue_.Chance(0.1);
  coordinator_->Take(std::move(input), [this, key, answer_lost](const coordinator::Reply& reply) {
    if (!reply.status.ok())
      throw Broken(absl::StrCat("a submit was refused: ", reply.status.message()));
    if (!answer_lost) witness_.SubmitAcknowledged(key, reply.submit.job());
  });
}

void World::CancelSome() {
  if (!coordinator_->alive() || coordinator_->state().jobs.empty()) return;
  const auto& jobs = coordinator_->state().jobs;
  const auto victim =
      std::next(jobs.begin(), queue_.Draw(0, static_cast<int64_t>(jobs.size()) - 1));
  coordinator_->Take(coordinator::CancelInput{{"uid:1"}, {victim->first}});
}

// ---------------------------------------------------------------- faults

void World::BreakSomething() {
  if (calm_) return;
  queue_.After(queue_.Draw(1'000, 90'000), [this] { BreakSomething(); });
  ++faults_;
  SimNode& node =
      *nodes_[static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(nodes_.size()) - 1))];
  static constexpr const char* kFaults[] = {
      "kill coordinator", "kill worker",     "kill worker",
      "kill a shim",      "reboot",          "partition",
      "hang up",          "cancel a job",    "repeat an old report",
      "stop a shim",      "damage a record", "lose the identity",
      "second worker",    "stand still",     "pause"};
  const int64_t fault = queue_.Draw(0, 14);
  queue_.Trace(absl::StrCat("FAULT ", kFaults[fault], " (", node.name(), ")"));
  Break(node, fault);
}

void World::Break(SimNode& node, int64_t fault) {
  if (node.still()) return;
  switch (fault) {
    case 0:
      coordinator_->Kill();
      queue_.After(queue_.Draw(10, 60'000), [this] { coordinator_->Start(); });
      break;
    case 1:
    case 2:
      node.KillWorker();
      queue_.After(queue_.Draw(10, 60'000), [&node] { node.StartWorker(); });
      break;
    case 3:
      node.KillOneShim();
      break;
    case 4:
      node.Reboot();
      queue_.After(queue_.Draw(1'000, 120'000), [&node] { node.StartWorker(); });
      break;
    case 5: {
      partitioned_.insert(node.name());
      // Sometimes longer than stop_after: the fence has to hold.
      const int64_t lasts =
          queue_.Chance(0.3) ? queue_.Draw(500'000, 1'500'000) : queue_.Draw(100, 120'000);
      queue_.After(lasts, [this, &node] { partitioned_.erase(node.name()); });
      break;
    }
    case 6:
      HangUp(node.link());
      break;
    case 7:
      CancelSome();
      break;
    case 8:
      ReplayOldReport();
      break;
    case 9:
      node.StopOneShim();
      break;
    case 10:
    case 11:
      fault == 10 ? node.DamageOneRecord() : node.LoseIdentity();
      queue_.After(queue_.Draw(10, 60'000), [&node] { node.StartWorker(); });
      break;
    case 12:
      StartSecondWorker();
      break;
    case 13:
    case 14:
      StandStill(node, fault == 14);
      break;
  }
}

// Sometimes for longer than a partition may last before its ranks run elsewhere.
void World::StandStill(SimNode& node, bool unaware) {
  node.StandStill();
  const int64_t lasts =
      queue_.Chance(0.5) ? queue_.Draw(500'000, 1'500'000) : queue_.Draw(100, 120'000);
  queue_.After(lasts, [&node, lasts, unaware] { node.GoOn(lasts, unaware); });
  // The connection's keepalive fails, or the other end waits in vain for what it sent.
  if (queue_.Chance(0.3)) return;
  queue_.After(queue_.Draw(10'000, 40'000), [this, &node] {
    if (node.still() && node.link() != 0) HangUp(node.link());
  });
}

// With a new state directory, or a copy, under the name of an existing node or another one.
// Sometimes the first one is dead or silent, and the second one takes over.
void World::StartSecondWorker() {
  SimNode& other =
      *others_[static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(others_.size()) - 1))];
  if (other.worker_alive() || other.still()) return;
  const size_t from = static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(nodes_.size()) - 1));
  if (queue_.Chance(0.5)) other.CopyStateFrom(*nodes_[from]);
  other.StartWorker();
  KillLater(other);
}

void World::KillLater(SimNode& other) {
  queue_.After(queue_.Draw(1'000, 300'000), [this, &other] {
    if (calm_) return;
    other.still() ? KillLater(other) : other.KillWorker();
  });
}

// J10: a report about an attempt other than the live one changes nothing.
void World::ReplayOldReport() {
  if (!coordinator_->alive() || old_reports_.empty()) return;
  const auto& [name, status] = old_reports_[static_cast<size_t>(
      queue_.Draw(0, static_cast<int64_t>(old_reports_.size()) - 1))];
  const auto& state = coordinator_->state();
  const coordinator::Node* node = coordinator::FindNode(state, name);
  if (node == nullptr || node->session == 0 || node->record.state() != v1::NODE_STATE_ALIVE) return;
  const auto job = state.jobs.find(status.job());
  const v1::Attempt* live =
      job == state.jobs.end() ? nullptr : coordinator::LiveAttempt(job->second);
  if (live != nullptr && live->number() == status.attempt()) return;
  coordinator::ClusterState copy = state;
  v1::WorkerMessage message;
  *message.mutable_attempt_status() = status;
  const coordinator::Input input = coordinator::WorkerSaidInput{node->session, name, message};
  const coordinator::Turn turn =
      coordinator::TakeTurn(copy, {&input, 1}, {queue_.now_ms() + 5'000'000, 0});
  for (const v1::Event& event : turn.events) {
    if (event.job() == status.job())
      throw Broken("J10: a report of a stale attempt changed its job");
  }
}

// ---------------------------------------------------------------- the run

void World::CheckEnd() {
  witness_.CheckEnd();
  std::set<uint64_t> listed;
  for (const auto& [id, job] : coordinator_->state().jobs) listed.insert(id);
  for (const auto& [id, job] : coordinator_->finished()) listed.insert(id);
  for (const auto& [key, job] : witness_.acknowledged()) {
    if (!listed.contains(job))
      throw Broken(absl::StrCat("J1: job ", job, " was acknowledged and is lost"));
  }
  if (listed.size() != jobs_to_submit_) {
    throw Broken(absl::StrCat("J2: ", jobs_to_submit_, " keys made ", listed.size(), " jobs"));
  }
  for (const auto& [id, job] : coordinator_->state().jobs) {
    throw Broken(absl::StrCat("J12: job ", id, " is still ", coordinator::StateName(job.state()),
                              ": ", job.reason()));
  }
}

// A job that lost too many nodes in a row is held until a person releases it.
void World::ReleaseHeld() {
  queue_.After(300'000, [this] { ReleaseHeld(); });
  if (!coordinator_->alive()) return;
  coordinator::ReleaseInput release{{"uid:1"}, {}};
  for (const auto& [id, job] : coordinator_->state().jobs) {
    if (job.held()) release.jobs.push_back(id);
  }
  if (!release.jobs.empty()) coordinator_->Take(std::move(release));
}

// A shape that these nodes can never hold waits forever, as requested.
void World::TakeBackImpossible() {
  queue_.After(600'000, [this] { TakeBackImpossible(); });
  if (!coordinator_->alive() || coordinator_->state().queue.empty()) return;
  const coordinator::ClusterState& state = coordinator_->state();
  coordinator::CancelInput cancel{{"uid:1"}, {}};
  for (const coordinator::QueuePlace& place : state.queue) {
    const v1::JobRecord& job = state.jobs.at(place.job);
    const bool never = coordinator::WhyNever(state, job, coordinator_->Now()).has_value();
    if (never) cancel.jobs.push_back(place.job);
  }
  if (!cancel.jobs.empty()) coordinator_->Take(std::move(cancel));
}

Result World::Run() {
  coordinator_->Start();
  for (auto& node : nodes_) {
    queue_.After(queue_.Draw(0, 5'000), [&node] { node->StartWorker(); });
  }
  for (uint64_t i = 0; i < jobs_to_submit_; ++i) SubmitLater(i);
  queue_.After(queue_.Draw(0, 60'000), [this] { BreakSomething(); });
  queue_.After(0, [this] { ReleaseHeld(); });
  while (queue_.Step(kStormMs)) {
  }
  calm_ = true;
  partitioned_.clear();
  for (auto& node : nodes_) node->GoOn(0, false);
  for (auto& other : others_) other->GoOn(0, false);
  queue_.After(0, [this] { coordinator_->Start(); });
  // The first ones are back for good; a copy under a separate name is a node like any other.
  for (auto& other : others_) {
    queue_.After(0,
                 [&other] { other->name() == "x" ? other->StartWorker() : other->KillWorker(); });
  }
  for (auto& node : nodes_) queue_.After(0, [&node] { node->StartWorker(); });
  queue_.After(60'000, [this] { TakeBackImpossible(); });
  const int64_t end = queue_.now_ms() + kSettleMs;
  const auto settled = [this] {
    return coordinator_->alive() && witness_.acknowledged().size() == jobs_to_submit_ &&
           coordinator_->finished().size() == jobs_to_submit_;
  };
  while (!settled() && queue_.Step(end)) {
  }
  CheckEnd();
  return {coordinator_->events(), witness_.starts(), witness_.overtaken(),
          jobs_to_submit_,        faults_,           queue_.now_ms()};
}

}  // namespace muster::sim
