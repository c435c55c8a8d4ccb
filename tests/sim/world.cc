#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/scheduling/pass.h"
#include "coordinator/core/state/state.h"
#include "tests/sim/sim_coordinator.h"

namespace muster::sim {
namespace {

constexpr int64_t kStormMs = 40 * 60'000;  // faults happen for this long …
constexpr int64_t kSettleMs =
    24 * 3'600'000;  // … and everything is over this long after they stop (J12)
constexpr uint32_t kGraceMs = 5'000;
constexpr const char* kFaults[] = {
    "kill coordinator", "kill worker", "kill worker", "kill a shim", "reboot", "partition",
    "hang up", "cancel a job", "repeat an old report", "stop a shim", "damage a record",
    "lose the identity", "second worker", "stand still", "pause",
    // Of several heads.
    "kill a head", "stop a head", "stop a head", "cut a head from etcd", "cut a head from etcd",
    "etcd elects", "end a head"};
constexpr int64_t kFaultsOfOne = 14, kFaultsOfSeveral = 21;  // the last ones
// How much faster or slower a clock may run than time passes: etcd's; that of a head's machine or a node's. The margin of
// the fence, 5 s of 610 s, allows for two of these that differ by 0.8 %.
constexpr double kEtcdRateMost = 0.05;
constexpr double kRateMost = 0.004;

}  // namespace

World::World(uint64_t seed, const Options& options)
    : queue_(seed), witness_(queue_), ledger_(queue_, witness_, [this](const std::string& sha256) {
        return blobs_.contains(sha256);
      }) {
  queue_.trace = options.trace;
  MakeServers(options);
  AddNodes();
  jobs_to_submit_ = static_cast<uint64_t>(queue_.Draw(3, 12));
}

void World::MakeServers(const Options& options) {
  const Server::Callbacks callbacks{[this](Server& server, const coordinator::Command& command,
                                           uint64_t epoch) { Deliver(server, command, epoch); },
                                    [this](Server& server) { ServerKilled(server); }};
  if (options.heads == 1) {
    servers_.push_back(std::make_unique<SimCoordinator>(queue_, ledger_, callbacks));
    return;
  }
  // A term that lasts gives nodes up; one that does not, only begins.
  spares_heads_ = queue_.Chance(0.5) ? 0.9 : 0;
  lease_ms_ = queue_.Chance(0.3) ? 5'000 : queue_.Draw(5, 30) * 1'000;
  log_ = std::make_unique<SharedLog>(ledger_);
  etcd_ = std::make_unique<SimEtcd>(queue_, DrawRate(kEtcdRateMost),
                                    [this](const etcdserverpb::PutRequest& put) {
                                      log_->Written(*etcd_, put);
                                      if (put.key() == kLeaderKey) BreakNewLeader(put.value());
                                    });
  for (int i = 0; i < options.heads; ++i) {
    names_.push_back(absl::StrCat("head", i));
    auto head = std::make_unique<SimHead>(queue_, *etcd_, *log_, ledger_, callbacks,
                                          SimHead::Options{.name = names_.back(),
                                                           .rate = DrawRate(kRateMost),
                                                           .lease_ms = lease_ms_,
                                                           .plants = options.plants});
    heads_.push_back(head.get());
    servers_.push_back(std::move(head));
  }
}

double World::DrawRate(double most) {
  if (queue_.Chance(0.5)) return queue_.Chance(0.5) ? 1 + most : 1 - most;
  return 1 + most * static_cast<double>(queue_.Draw(-1'000, 1'000)) / 1'000;
}

Server* World::Leader() const {
  Server* leader = nullptr;
  for (const auto& server : servers_) {
    if (!server->may_answer()) continue;
    if (leader == nullptr || server->epoch() > leader->epoch()) leader = server.get();
  }
  return leader;
}

Server& World::AnyServer() {
  if (servers_.size() == 1) return *servers_[0];
  // Clients that are told by one head that it does not lead ask the next.
  std::vector<Server*> asked;
  for (const auto& server : servers_) {
    if (server->leads()) asked.push_back(server.get());
  }
  if (asked.empty()) return *servers_[0];
  return *asked[static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(asked.size()) - 1))];
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
    if (!heads_.empty()) nodes_.back()->SetRate(DrawRate(kRateMost));
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
  if (!heads_.empty()) return DialInTurn(node);
  queue_.After(Latency(), [this, &node] {
    if (!node.worker_alive() || node.link() != 0) return;
    if (!servers_[0]->alive() || partitioned_.contains(node.name()) || node.still()) {
      queue_.After(queue_.Draw(50, 5000), [this, &node] {
        if (node.worker_alive() && node.link() == 0) Dial(node);
      });
      return;
    }
    Connect(node, *servers_[0]);
  });
}

void World::Connect(SimNode& node, Server& server) {
  const uint64_t link = next_link_++;
  links_[link] = {.node = &node, .server = &server};
  node.LinkUp(link);
}

// As worker/links/coordinator_link.cc does, with the same rules.
void World::DialInTurn(SimNode& node) {
  worker::HeadRounds& rounds =
      rounds_.try_emplace(&node, queue_.Draw(0, int64_t{1} << 50)).first->second;
  const std::string& name = rounds.Next(names_, queue_.now_ms());
  Server& server = *servers_[static_cast<size_t>(std::find(names_.begin(), names_.end(), name) -
                                                 names_.begin())];
  queue_.After(Latency(), [this, &node, &server] { AskInTurn(node, server); });
}

void World::AskInTurn(SimNode& node, Server& server) {
  using End = worker::HeadRounds::End;
  if (!node.worker_alive() || node.link() != 0) return;
  const bool answers = server.alive() && !partitioned_.contains(node.name()) && !node.still();
  // One that is stopped takes the connection, and says nothing.
  if (answers && (server.leads() || server.is_paused())) return Connect(node, server);
  const int64_t at_ms =
      rounds_.at(&node).Ended(answers ? End::kStandsBy : End::kFailed, queue_.now_ms());
  queue_.After(at_ms - queue_.now_ms() + queue_.Draw(0, answers ? 5 : 1'000), [this, &node] {
    if (node.worker_alive() && node.link() == 0) Dial(node);
  });
}

void World::HangUp(uint64_t link) {
  const auto found = links_.find(link);
  if (found == links_.end() || std::exchange(found->second.closed, true)) return;
  SimNode& node = *found->second.node;
  Server& server = *found->second.server;
  if (const auto rounds = rounds_.find(&node); rounds != rounds_.end())
    rounds->second.Ended(worker::HeadRounds::End::kFailed, queue_.now_ms());
  // Each end notices after a while; a partitioned end much later, when its keepalive fails.
  const int64_t delay =
      partitioned_.contains(node.name()) ? queue_.Draw(10'000, 40'000) : Latency();
  queue_.After(delay, [link, &node, &server] {
    server.Take(coordinator::WorkerGoneInput{link, node.name()});
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
  Server& server = *found->second.server;
  queue_.After(last - queue_.now_ms(), [this, &node, &server, link, message = std::move(message)] {
    if (links_[link].closed || !server.alive()) return;
    if (!message.has_register_()) {
      server.Take(coordinator::WorkerSaidInput{link, node.name(), message});
      return;
    }
    server.Take(coordinator::WorkerRegisteredInput{link, message.register_()},
                [this, link](const coordinator::Reply& reply) {
                  if (!reply.status.ok()) HangUp(link);
                });
  });
}

void World::Deliver(Server& server, const coordinator::Command& command, uint64_t epoch) {
  uint64_t& link = link_of_node_[{&server, command.node}];
  // Only an accepted registration takes over the node from an older stream.
  if (command.message.has_registered()) {
    const coordinator::Node* node = coordinator::FindNode(server.state(), command.node);
    link = node == nullptr ? 0 : node->session;
  }
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.closed || partitioned_.contains(command.node)) return;
  v1::CoordinatorMessage message = command.message;
  message.set_epoch(epoch);
  SimNode& node = *found->second.node;
  if (message.has_registered() && !heads_.empty()) {
    message.mutable_registered()->mutable_heads()->Assign(names_.begin(), names_.end());
    rounds_.at(&node).Leads();
  }
  const int copies = queue_.Chance(0.03) ? 2 : 1;  // commands may be repeated
  for (int i = 0; i < copies; ++i) {
    int64_t& last = found->second.last_down_ms;
    last = std::max(last, queue_.now_ms() + Latency());
    queue_.After(last - queue_.now_ms(), [this, link = found->first, &node, message] {
      const Link& at = links_[link];
      if ((!at.closed || at.drains) && !partitioned_.contains(node.name()))
        node.Receive(link, message);
    });
  }
}

void World::ServerKilled(Server& server) {
  std::erase_if(link_of_node_, [&](const auto& at) { return at.first.first == &server; });
  for (auto& [id, link] : links_) {
    if (link.server != &server || std::exchange(link.closed, true)) continue;
    SimNode& node = *link.node;
    if (const auto rounds = rounds_.find(&node); rounds != rounds_.end())
      rounds->second.Ended(worker::HeadRounds::End::kFailed, queue_.now_ms());
    link.drains = !heads_.empty() && queue_.Chance(0.7);
    // A machine that lost power closes no connection: the worker finds out.
    if (!heads_.empty() && queue_.Chance(0.1)) continue;
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
  queue_.After(queue_.Draw(1'000, 10'000), [this, number, key] {
    if (!witness_.acknowledged().contains(key)) Submit(number);
  });
  if (queue_.Chance(0.1)) return;  // the request is lost
  const bool answer_lost = queue_.Chance(0.1);
  AnyServer().Take(SubmitOf(number, key),
                   [this, key, answer_lost](const coordinator::Reply& reply) {
                     if (!reply.status.ok())
                       throw Broken(absl::StrCat("a submit was refused: ", reply.status.message()));
                     if (!answer_lost) witness_.SubmitAcknowledged(key, reply.submit.job());
                   });
}

coordinator::SubmitInput World::SubmitOf(uint64_t number, const std::string& key) {
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
  constexpr const char* kProjects[] = {"red", "blue", ""};
  spec->set_project(kProjects[number % std::size(kProjects)]);
  // True, too short, much too long, or not given.
  constexpr uint64_t kEstimatesMs[] = {20'000, 1'000, 3'600'000, 0};
  spec->set_estimate_ms(kEstimatesMs[number / 2 % std::size(kEstimatesMs)]);
  if (number % 4 < 2) spec->set_preemptible(number % 4 == 0);
  return input;
}

// J2, long after the acknowledgement: the same key is the same job, and refused for another spec.
void World::ResubmitOften() {
  if (calm_) return;
  queue_.After(queue_.Draw(1'000, 30'000), [this] { ResubmitOften(); });
  const auto number =
      static_cast<uint64_t>(queue_.Draw(0, static_cast<int64_t>(jobs_to_submit_) - 1));
  const std::string key = absl::StrCat("key-", number);
  if (!witness_.acknowledged().contains(key)) return;
  const bool is_same = queue_.Chance(0.7);
  coordinator::SubmitInput input = SubmitOf(number, key);
  if (!is_same) input.request.mutable_spec()->add_command("otherwise");
  AnyServer().Take(std::move(input), [this, key, is_same](const coordinator::Reply& reply) {
    if (reply.status.ok() != is_same)
      throw Broken(absl::StrCat("J2: key ", key, " came again: ", reply.status.message()));
    if (is_same) witness_.SubmitAcknowledged(key, reply.submit.job());
  });
}

// Quotas that change under the jobs, and people who change their minds.
void World::ShareOften() {
  if (calm_) return;
  queue_.After(queue_.Draw(5'000, 120'000), [this] { ShareOften(); });
  Server* const leader = Leader();
  if (leader == nullptr) return;
  coordinator::ProjectsInput shares;
  for (const char* name : {"red", "blue"}) {
    v1::ProjectShare& share = *shares.projects.add_projects();
    share.set_name(name);
    share.set_weight(static_cast<uint32_t>(queue_.Draw(1, 3)));
    const auto quota = static_cast<uint32_t>(queue_.Draw(0, 4));
    (*share.mutable_quota())["cpu"] = quota;
    // Each job has at most four ranks, so that no limit keeps one back for good.
    if (queue_.Chance(0.3)) (*share.mutable_limit())["cpu"] = quota + 4;
    if (queue_.Chance(0.2)) share.set_person_jobs(static_cast<uint32_t>(queue_.Draw(1, 3)));
    if (queue_.Chance(0.2))
      (*share.mutable_person_limit())["cpu"] = static_cast<uint32_t>(queue_.Draw(4, 6));
  }
  leader->Take(std::move(shares));
  if (leader->state().jobs.empty()) return;
  const auto& jobs = leader->state().jobs;
  const auto job = std::next(jobs.begin(), queue_.Draw(0, static_cast<int64_t>(jobs.size()) - 1));
  leader->Take(coordinator::SetInput{.caller = {.principal = "uid:1", .role = v1::ROLE_OPERATOR},
                                     .jobs = {job->first},
                                     .priority = static_cast<int32_t>(queue_.Draw(-1, 1)),
                                     .estimate_ms = static_cast<uint64_t>(queue_.Draw(0, 60'000)),
                                     .urgent = queue_.Chance(0.2)});
  StopSome(*leader);
}

// Some are stopped and held until ReleaseHeld; some are told to stay before they have left.
void World::StopSome(Server& leader) {
  const auto& jobs = leader.state().jobs;
  const auto job = std::next(jobs.begin(), queue_.Draw(0, static_cast<int64_t>(jobs.size()) - 1));
  if (queue_.Chance(0.5)) {
    leader.Take(
        coordinator::StopInput{.caller = {"uid:1"},
                               .jobs = {job->first},
                               .notice_ms = static_cast<uint32_t>(queue_.Draw(0, 20) * 1'000)});
  }
  if (queue_.Chance(0.3))
    leader.Take(coordinator::ReleaseInput{.caller = {"uid:1"}, .jobs = {job->first}});
  const auto& nodes = leader.state().nodes;
  if (nodes.empty() || !queue_.Chance(0.3)) return;
  const std::string node = nodes.begin()->first;
  leader.Take(coordinator::DrainInput{.caller = {"uid:1"}, .node = node, .evict = true});
  queue_.After(queue_.Draw(1'000, 30'000), [this, node] { Undrain(node); });
}

// Also while no coordinator leads for a moment.
void World::Undrain(const std::string& node) {
  if (Server* const leader = Leader())
    leader->Take(coordinator::DrainInput{.caller = {"uid:1"}, .node = node, .drain = false});
  else
    queue_.After(1'000, [this, node] { Undrain(node); });
}

// So that nothing waits for a quota for good at the end: a job that may not be asked to give way starts within its
// project's alone.
void World::ShareForGood() {
  if (Server* const leader = Leader()) {
    leader->Take(coordinator::ProjectsInput{});
  } else {
    queue_.After(1'000, [this] { ShareForGood(); });
  }
}

void World::CancelSome() {
  Server* const leader = Leader();
  if (leader == nullptr || leader->state().jobs.empty()) return;
  const auto& jobs = leader->state().jobs;
  const auto victim =
      std::next(jobs.begin(), queue_.Draw(0, static_cast<int64_t>(jobs.size()) - 1));
  leader->Take(coordinator::CancelInput{{"uid:1"}, {victim->first}});
}

// J1: a list has every job whose submit was acknowledged before it was asked for, from any head that answers.
void World::ReadOften() {
  if (calm_) return;
  queue_.After(queue_.Draw(50, 2'000), [this] { ReadOften(); });
  std::set<uint64_t> expected;
  for (const auto& [key, job] : witness_.acknowledged()) expected.insert(job);
  AnyServer().List([this, expected = std::move(expected)](const std::set<uint64_t>& jobs) {
    ++reads_;
    for (const uint64_t job : expected) {
      if (!jobs.contains(job))
        throw Broken(absl::StrCat("J1: job ", job, " was acknowledged, and a later list lacks it"));
    }
  });
}

void World::NoteOften() {
  if (calm_) return;
  queue_.After(queue_.Draw(200, 5'000), [this] { NoteOften(); });
  const uint64_t number = next_note_++;
  dynamic_cast<SimHead&>(AnyServer()).Note(number, [this, number] { noted_.insert(number); });
}

// ---------------------------------------------------------------- faults

void World::BreakSomething() {
  if (calm_) return;
  queue_.After(queue_.Draw(1'000, 90'000), [this] { BreakSomething(); });
  ++faults_;
  SimNode& node =
      *nodes_[static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(nodes_.size()) - 1))];
  const bool spares_heads = heads_.empty() || queue_.Chance(spares_heads_);
  const int64_t fault = queue_.Draw(0, spares_heads ? kFaultsOfOne : kFaultsOfSeveral);
  queue_.Trace(absl::StrCat("FAULT ", kFaults[fault], " (", node.name(), ")"));
  fault > kFaultsOfOne || (fault == 0 && !heads_.empty()) ? BreakHead(DrawHead(), fault)
                                                          : Break(node, fault);
}

SimHead& World::DrawHead() {
  auto* const leader = dynamic_cast<SimHead*>(Leader());
  if (leader != nullptr && queue_.Chance(0.7)) return *leader;
  return *heads_[static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(heads_.size()) - 1))];
}

// About as long as a lease; sometimes so long that nodes are given up meanwhile.
int64_t World::DrawOutage() {
  if (queue_.Chance(0.3)) return queue_.Draw(500'000, 1'500'000);
  return queue_.Draw(100, queue_.Chance(0.7) ? 3 * lease_ms_ : 120'000);
}

// A term begins: the moment at which most can go wrong.
void World::BreakNewLeader(const std::string& record) {
  if (calm_ || !queue_.Chance(0.1)) return;
  v1::HeadRecord leader;
  leader.ParseFromString(record);
  SimHead& head = **std::find_if(heads_.begin(), heads_.end(), [&](const SimHead* each) {
    return each->name() == leader.name();
  });
  queue_.After(queue_.Draw(0, 10),
               [this, &head, fault = queue_.Draw(kFaultsOfOne + 1, kFaultsOfSeveral)] {
                 if (calm_) return;
                 ++faults_;
                 queue_.Trace(absl::StrCat("FAULT ", kFaults[fault]));
                 BreakHead(head, fault);
               });
}

void World::BreakHead(SimHead& head, int64_t fault) {
  queue_.Trace(absl::StrCat("  of ", head.name()));
  switch (fault) {
    case 16:
    case 17:
      head.Pause();
      return queue_.After(DrawOutage(), [&head] { head.GoOn(); });
    case 18:
    case 19:
      head.CutFromEtcd(true);
      return queue_.After(DrawOutage(), [&head] { head.CutFromEtcd(false); });
    case 20:
      return etcd_->Elect(queue_.Chance(0.8) ? queue_.Draw(100, 5'000)
                                             : queue_.Draw(1'000, 60'000));
    case 21:
      head.Resign();
      break;
    default:
      head.Kill();
      break;
  }
  queue_.After(queue_.Draw(10, 60'000), [&head] { head.Start(); });
}

void World::Break(SimNode& node, int64_t fault) {
  if (node.still()) return;
  switch (fault) {
    case 0:
      servers_[0]->Kill();
      queue_.After(queue_.Draw(10, 60'000), [this] { servers_[0]->Start(); });
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
  Server* const leader = Leader();
  if (leader == nullptr || old_reports_.empty()) return;
  const auto& [name, status] = old_reports_[static_cast<size_t>(
      queue_.Draw(0, static_cast<int64_t>(old_reports_.size()) - 1))];
  const auto& state = leader->state();
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
  const Server* const leader = Leader();
  if (leader == nullptr) throw Broken("J12: no coordinator leads");
  std::set<uint64_t> listed;
  for (const auto& [id, job] : leader->state().jobs) listed.insert(id);
  for (const auto& [id, job] : leader->finished()) listed.insert(id);
  for (const auto& [key, job] : witness_.acknowledged()) {
    if (!listed.contains(job))
      throw Broken(absl::StrCat("J1: job ", job, " was acknowledged and is lost"));
  }
  if (listed.size() != jobs_to_submit_) {
    throw Broken(absl::StrCat("J2: ", jobs_to_submit_, " keys made ", listed.size(), " jobs"));
  }
  for (const auto& [id, job] : leader->state().jobs) {
    throw Broken(absl::StrCat("J12: job ", id, " is still ", coordinator::StateName(job.state()),
                              ": ", job.reason()));
  }
  for (const uint64_t note : noted_) {
    if (!log_->notes().contains(note))
      throw Broken(absl::StrCat("J1: note ", note, " was acknowledged and is lost"));
  }
  for (const SimHead* head : heads_) {
    if (head->position() != log_->position()) {
      throw Broken(absl::StrCat("J11: the copy of ", head->name(), " is at ", head->position(),
                                ", the log at ", log_->position()));
    }
  }
}

// A job that lost too many nodes in a row is held until a person releases it.
void World::ReleaseHeld() {
  queue_.After(300'000, [this] { ReleaseHeld(); });
  Server* const leader = Leader();
  if (leader == nullptr) return;
  coordinator::ReleaseInput release{{"uid:1"}, {}, false};
  for (const auto& [id, job] : leader->state().jobs) {
    if (job.held()) release.jobs.push_back(id);
  }
  if (!release.jobs.empty()) leader->Take(std::move(release));
}

// A shape that these nodes can never hold waits forever, as requested.
void World::TakeBackImpossible() {
  queue_.After(600'000, [this] { TakeBackImpossible(); });
  Server* const leader = Leader();
  if (leader == nullptr || leader->state().queue.empty()) return;
  const coordinator::ClusterState& state = leader->state();
  coordinator::CancelInput cancel{{"uid:1"}, {}};
  for (const coordinator::QueuePlace& place : state.queue) {
    const v1::JobRecord& job = state.jobs.at(place.job);
    const bool never = coordinator::WhyNever(state, job, leader->Now()).has_value();
    if (never) cancel.jobs.push_back(place.job);
  }
  if (!cancel.jobs.empty()) leader->Take(std::move(cancel));
}

Result World::Run() {
  for (auto& server : servers_) server->Start();
  for (auto& node : nodes_) {
    queue_.After(queue_.Draw(0, 5'000), [&node] { node->StartWorker(); });
  }
  for (uint64_t i = 0; i < jobs_to_submit_; ++i) SubmitLater(i);
  queue_.After(queue_.Draw(0, 60'000), [this] { BreakSomething(); });
  queue_.After(0, [this] { ReleaseHeld(); });
  queue_.After(queue_.Draw(0, 60'000), [this] { ShareOften(); });
  if (!heads_.empty()) {
    queue_.After(0, [this] { ReadOften(); });
    queue_.After(0, [this] { NoteOften(); });
    queue_.After(0, [this] { ResubmitOften(); });
  }
  while (queue_.Step(kStormMs)) {
  }
  calm_ = true;
  partitioned_.clear();
  for (auto& node : nodes_) node->GoOn(0, false);
  for (auto& other : others_) other->GoOn(0, false);
  for (SimHead* head : heads_) {
    head->CutFromEtcd(false);
    head->GoOn();
  }
  queue_.After(0, [this] {
    for (auto& server : servers_) server->Start();
  });
  queue_.After(300'000, [this] { ShareForGood(); });
  // The first ones are back for good; a copy under a separate name is a node like any other.
  for (auto& other : others_) {
    queue_.After(0,
                 [&other] { other->name() == "x" ? other->StartWorker() : other->KillWorker(); });
  }
  for (auto& node : nodes_) queue_.After(0, [&node] { node->StartWorker(); });
  queue_.After(60'000, [this] { TakeBackImpossible(); });
  const int64_t end = queue_.now_ms() + kSettleMs;
  const auto settled = [this] {
    const Server* const leader = Leader();
    return leader != nullptr && witness_.acknowledged().size() == jobs_to_submit_ &&
           leader->finished().size() == jobs_to_submit_;
  };
  // The copies follow.
  const auto follow = [this] {
    return std::all_of(heads_.begin(), heads_.end(), [this](const SimHead* head) {
      return head->position() == log_->position();
    });
  };
  while (!(settled() && follow()) && queue_.Step(end)) {
  }
  CheckEnd();
  Result result{ledger_.events().size(), witness_.starts(), witness_.overtaken(), jobs_to_submit_,
                faults_};
  for (const SimHead* head : heads_) result.takeovers += head->takeovers();
  result.reads = reads_;
  result.simulated_ms = queue_.now_ms();
  return result;
}

}  // namespace muster::sim
