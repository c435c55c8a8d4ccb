#include "replay/cluster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "coordinator/core/state/timers.h"

namespace muster::replay {
namespace {

constexpr size_t kInputsPerTurn = 256;  // as in coordinator/loop/control_loop.h
constexpr int64_t kBeginMs = 1'000;     // of the core's clock: 0 means "never" to it

// Names in the order of their numbers.
std::string NameOf(size_t node) { return absl::StrCat("node", absl::Dec(node, absl::kZeroPad6)); }

}  // namespace

using namespace coordinator;

Cluster::Cluster(const std::vector<uint32_t>& nodes, const Rules& rules,
                 std::function<void(const std::function<void()>& turn)> timed)
    : timed_(std::move(timed)) {
  // Between the ends of jobs nodes are not heard from.
  state_.settings.suspect_after_ms = kLongMs;
  state_.settings.start_timeout_ms = kLongMs;
  state_.settings.backfill = rules.backfill;
  state_.settings.min_run_ms = rules.min_run_ms.value_or(kLongMs);
  // Traces have no owners.
  state_.settings.owner_live_bytes_max = state_.settings.live_bytes_max = UINT64_MAX;
  now_.wall_ms = 1'700'000'000'000;
  now_.mono_ms = now_.lived_ms = kBeginMs;
  for (size_t node = 0; node < nodes.size(); ++node) Register(node, nodes[node]);
  for (const uint32_t devices : nodes) whole_node_ = std::max(whole_node_, devices);
  if (!rules.quotas.empty()) SetQuotas(rules.quotas);
}

void Cluster::Register(size_t node, uint32_t devices) {
  WorkerRegisteredInput input{.session = static_cast<uint64_t>(node) + 1};
  v1::NodeFacts& facts = *input.message.mutable_facts();
  facts.set_name(NameOf(node));
  facts.set_incarnation(1);
  facts.set_boot_id("boot");
  facts.set_protocol(common::kProtocol);
  facts.set_advertise("10.0.0.1");
  for (uint32_t index = 0; index < devices; ++index) {
    v1::Device& device = *facts.add_devices();
    device.set_kind("gpu");
    device.set_index(index);
  }
  WorkerSaidInput said{.session = input.session, .node = facts.name()};
  said.message.mutable_cleared();
  sessions_[facts.name()] = input.session;
  inputs_.push_back(std::move(input));
  inputs_.push_back(std::move(said));
  Settle();
}

void Cluster::SetQuotas(const std::map<std::string, uint32_t>& quotas) {
  ProjectsInput input;
  for (const auto& [project, quota] : quotas) {
    v1::ProjectShare& share = *input.projects.add_projects();
    share.set_name(project);
    share.set_weight(1);
    (*share.mutable_quota())["gpu"] = quota;
  }
  inputs_.push_back(std::move(input));
  Settle();
}

void Cluster::Submit(const TracedJob& traced) {
  SubmitInput input{.caller = {.principal = "uid:1"}};
  v1::JobSpec& spec = *input.request.mutable_spec();
  input.request.set_queue_anyway(true);
  spec.add_command("train");
  spec.set_workdir("/");
  spec.set_on_node_loss(v1::ON_NODE_LOSS_WAIT);
  spec.set_priority(traced.priority);
  spec.set_estimate_ms(static_cast<uint64_t>(traced.estimate_ms));
  spec.set_project(traced.project);
  spec.set_preemptible(true);
  v1::Shape& shape = *spec.mutable_shape();
  shape.mutable_device()->set_kind("gpu");
  const uint32_t nodes = (traced.devices + whole_node_ - 1) / whole_node_;
  if (nodes > 1) {
    shape.set_per_node(whole_node_);
  } else {
    shape.set_processes(traced.devices);
  }
  shape.set_min_nodes(nodes);
  shape.set_max_nodes(nodes);
  inputs_.push_back(std::move(input));
  left_ms_.push_back(traced.duration_ms);
}

void Cluster::Settle() {
  while (!inputs_.empty()) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(inputs_.size(), kInputsPerTurn));
    std::vector<Input> taken(std::make_move_iterator(inputs_.begin()),
                             std::make_move_iterator(inputs_.begin() + count));
    inputs_.erase(inputs_.begin(), inputs_.begin() + count);
    Take(taken);
  }
}

void Cluster::PassTime(int64_t until_ms) {
  int64_t next = until_ms;
  if (!ends_.empty()) next = std::min(next, ends_.begin()->first);
  const std::optional<int64_t> timer = NextDeadlineMonoMs(state_);
  const bool is_tick = timer.has_value() && *timer <= next;
  if (is_tick) next = std::max(*timer, now_.mono_ms);
  now_.wall_ms += next - now_.mono_ms;
  now_.lived_ms += next - now_.mono_ms;
  now_.mono_ms = next;
  if (is_tick) inputs_.push_back(TickInput{});
  for (; !ends_.empty() && ends_.begin()->first <= next; ends_.erase(ends_.begin())) {
    ends_at_ms_[ends_.begin()->second] = next;
    End(ends_.begin()->second);
  }
  Settle();
}

void Cluster::EndOne() {
  const uint64_t job = ends_.begin()->second;
  ends_.erase(ends_.begin());
  End(job);
  Settle();
}

v1::AttemptStatus& Cluster::Say(const std::string& node, uint64_t job, uint32_t attempt,
                                v1::AttemptPhase phase) {
  WorkerSaidInput said{.session = sessions_.at(node), .node = node};
  v1::AttemptStatus& status = *said.message.mutable_attempt_status();
  status.set_job(job);
  status.set_attempt(attempt);
  status.set_phase(phase);
  inputs_.push_back(std::move(said));
  return *std::get<WorkerSaidInput>(inputs_.back()).message.mutable_attempt_status();
}

void Cluster::End(uint64_t job, bool stopped) {
  const v1::Attempt& attempt = *state_.jobs.at(job).attempts().rbegin();
  for (const v1::NodePart& part : attempt.parts()) {
    v1::AttemptStatus& status = Say(part.node(), job, attempt.number(), v1::ATTEMPT_PHASE_ENDED);
    for (uint32_t rank = 0; rank < part.local_world_size(); ++rank) {
      v1::RankExit& exit = *status.add_exits();
      exit.set_rank(part.first_rank() + rank);
      if (stopped) exit.set_signal(15);
      exit.set_stopped_by_us(stopped);
    }
  }
}

// The first of its nodes is told. What it did until it was asked is saved.
void Cluster::GiveWay(uint64_t job) {
  const auto end = std::find_if(ends_.begin(), ends_.end(),
                                [&](const auto& each) { return each.second == job; });
  if (end == ends_.end()) return;
  ends_.erase(end);
  const int64_t ran_ms = now_.mono_ms - began_ms_.at(job) - state_.settings.notice_ms;
  left_ms_.at(job - 1) -= std::max<int64_t>(0, ran_ms);
  ++gave_way_;
  left_.insert(job);
  End(job, /*stopped=*/true);
}

void Cluster::Take(const std::vector<Input>& taken) {
  Turn turn;
  const auto take = [&] { turn = TakeTurn(state_, taken, now_, nullptr); };
  if (timed_ != nullptr) {
    timed_(take);
  } else {
    take();
  }
  events_ += turn.events.size();
  for (const Reply& reply : turn.replies) status_.Update(reply.status);
  for (const v1::Event& event : turn.events) {
    if (!event.has_attempt_started()) continue;
    began_ms_[event.job()] = now_.mono_ms;
    ends_.emplace(now_.mono_ms + left_ms_.at(event.job() - 1), event.job());
  }
  for (const Command& command : turn.commands) Obey(command);
}

void Cluster::Obey(const Command& command) {
  const v1::CoordinatorMessage& message = command.message;
  if (message.has_prepare()) {
    v1::AttemptStatus& status = Say(command.node, message.prepare().job(),
                                    message.prepare().attempt(), v1::ATTEMPT_PHASE_HOLDING);
    status.set_ready(true);
    if (message.prepare().count() > 0) status.set_master_port(20'000);
  } else if (message.has_stop()) {
    GiveWay(message.stop().job());
  } else if (message.has_launch()) {
    Say(command.node, message.launch().job(), message.launch().attempt(), v1::ATTEMPT_PHASE_RUNNING)
        .set_ranks_started(message.launch().part().local_world_size());
  }
}

}  // namespace muster::replay
