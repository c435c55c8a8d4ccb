#include "tests/support/cluster_script.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/version.h"
#include "common/hash/sha256.h"
#include "common/node_shortage.h"
#include "coordinator/core/forecast.h"
#include "coordinator/core/plan.h"
#include "coordinator/core/state/invariants.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/views/usage_view.h"
#include "coordinator/core/views/views.h"
#include "tests/support/settled.h"

namespace muster::testing {
namespace {

using coordinator::Input;

int64_t Number(const std::string& text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) throw std::runtime_error("not a number: " + text);
  return value;
}

std::string Option(std::map<std::string, std::string>& options, const std::string& name,
                   const std::string& otherwise) {
  const auto found = options.find(name);
  if (found == options.end()) return otherwise;
  std::string value = found->second;
  options.erase(found);
  return value;
}

// "; table: 10.0.0.a rank 0 on 2 at 192.168.0.2 rank 1 on …".
std::string DescribeRankTable(const v1::LaunchAttempt& launch) {
  std::string text;
  for (const v1::RankTableNode& node : launch.rank_table()) {
    absl::StrAppend(&text, text.empty() ? "; table: " : ", ", node.address());
    for (int i = 0; i < node.devices_size(); ++i) {
      absl::StrAppend(&text, " rank ", node.first_rank() + static_cast<uint32_t>(i), " on ",
                      node.devices(i), " at ", node.device_addresses(i));
    }
  }
  return text;
}

std::string DescribeCommand(const v1::CoordinatorMessage& message) {
  using Message = v1::CoordinatorMessage;
  const auto of = [](const auto& m) { return absl::StrCat(m.job(), ".", m.attempt()); };
  switch (message.what_case()) {
    case Message::kRegistered:
      return message.registered().clear() ? "registered, to be cleared" : "registered";
    case Message::kHeartbeatReply:
      return "heartbeat reply";
    case Message::kPrepare:
      return absl::StrCat(message.prepare().has_spec() ? "prepare, " : "",
                          message.prepare().count() == 0 ? "check" : "check and hold 1 port",
                          " for ", of(message.prepare()));
    case Message::kLaunch: {
      const v1::LaunchAttempt& launch = message.launch();
      const v1::NodePart& part = launch.part();
      return absl::StrCat("launch ", of(launch), " ranks ", part.first_rank(), "..",
                          part.first_rank() + part.local_world_size() - 1, " of ",
                          launch.world_size(), " at ", launch.master_addr(), ":",
                          launch.master_port(), " resume ", launch.resume_step(), " (",
                          std::max<int>(launch.resume_file_count(), launch.resume_files_size()),
                          " files)", DescribeRankTable(launch));
    }
    case Message::kStop:
      return absl::StrCat("stop ", of(message.stop()), " grace ", message.stop().grace_ms());
    case Message::kSave:
      return absl::StrCat("ask ", of(message.save()), " to save within ",
                          message.save().period_ms() / 1000, "s");
    case Message::kSignal:
      return absl::StrCat("signal ", of(message.signal()), " ", message.signal().signal());
    case Message::kDiagnose:
      return absl::StrCat("diagnose ", of(message.diagnose()));
    case Message::kRunNotify:
      return absl::StrCat("run notify ", message.run_notify().delivery());
    case Message::kForget:
      return absl::StrCat("forget ", of(message.forget()));
    case Message::kCheckpointAck: {
      const v1::CheckpointAck& ack = message.checkpoint_ack();
      return absl::StrCat("checkpoint ", of(ack), " step ", ack.step(), " part ", ack.part(),
                          ack.refused()     ? " refused: "
                          : ack.committed() ? " committed"
                                            : " noted",
                          ack.reason());
    }
    default:
      return "?";
  }
}

}  // namespace

ClusterScript::ClusterScript() { base_ = coordinator::MakeSnapshot(state_); }

std::vector<std::string> ClusterScript::Run(const std::string& line) {
  out_.clear();
  Words words;
  Options options;
  for (const absl::string_view piece : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(piece, absl::MaxSplits('=', 1));
    if (absl::StrContains(piece, '=')) {
      options.insert(pair);
    } else {
      words.emplace_back(piece);
    }
  }
  try {
    Dispatch(words, options);
  } catch (const std::exception& error) {
    out_.push_back(absl::StrCat("SCRIPT ERROR: ", error.what()));
  }
  for (const auto& [name, value] : options) out_.push_back("UNUSED OPTION " + name);
  return out_;
}

void ClusterScript::Dispatch(const Words& words, Options& options) {
  const std::string& verb = words.at(0);
  if (verb == "node") {
    Node(words, options);
  } else if (verb == "cleared") {
    Cleared(words);
  } else if (verb == "gone") {
    Take(coordinator::WorkerGoneInput{state_.nodes.at(words.at(1)).session, words.at(1)});
  } else if (verb == "submit") {
    Submit(words, options);
  } else if (verb == "plan") {
    Plan(options);
  } else if (verb == "status") {
    Status(words, options);
  } else if (verb == "launch") {
    Launch(Number(words.at(1)));
  } else if (verb == "finish") {
    Finish(Number(words.at(1)));
  } else if (verb == "exit") {
    Exit(words, options);
  } else if (verb == "checkpoint") {
    Checkpoint(words, options);
  } else if (verb == "tick" || verb == "wait") {
    Advance(Number(words.at(1)), verb == "wait");
  } else if (verb == "restart") {
    Restart(Number(Option(options, "down", "100")), Option(options, "head", state_.settings.head));
  } else if (verb == "why") {
    Why(Number(words.at(1)));
  } else if (verb == "usage") {
    Usage(Option(options, "by", "project,kind"));
  } else if (verb == "queue") {
    Queue();
  } else {
    Bulk(words, options);
  }
}

namespace {

// "": as before; "old": an older worker, which reports nothing; else what it can limit,
// "cpus+memory".
void SetLimits(const std::string& text, v1::NodeFacts& facts) {
  if (text.empty()) return;
  facts.clear_limits();
  if (text == "old") return;
  v1::LimitFacts* limits = facts.mutable_limits();
  limits->set_how("cgroup v2");
  for (auto [word, gap] : {std::pair("cpus", &v1::LimitFacts::mutable_no_cpus),
                           std::pair("memory", &v1::LimitFacts::mutable_no_memory)}) {
    if (text.find(word) != std::string::npos) continue;
    (limits->*gap)()->set_why(absl::StrCat("its cgroup is not writable for ", word));
    (limits->*gap)()->set_fix("Delegate=yes in its unit");
  }
}

}  // namespace

void ClusterScript::Node(const Words& words, Options& options) {
  const std::string& name = words.at(1);
  v1::NodeFacts& facts = facts_[name];
  if (words.size() > 2) {
    facts.clear_devices();
    for (size_t i = 2; i < words.size(); ++i) {
      const std::pair<std::string, std::string> kind_count = absl::StrSplit(words[i], ':');
      for (int64_t index = 0; index < Number(kind_count.second); ++index) {
        v1::Device* device = facts.add_devices();
        device->set_kind(kind_count.first);
        device->set_index(static_cast<uint32_t>(index));
      }
    }
  }
  const bool has_model = options.contains("model");
  const std::string model = Option(options, "model", ""), net = Option(options, "net", "");
  for (v1::Device& device : *facts.mutable_devices()) {
    if (has_model) device.set_model(model);
    if (!net.empty()) device.set_address(absl::StrCat(net, ".", device.index()));
  }
  facts.set_name(name);
  facts.set_incarnation(Number(
      Option(options, "incarnation", absl::StrCat(std::max<uint64_t>(facts.incarnation(), 1)))));
  facts.set_boot_id(Option(options, "boot", facts.boot_id().empty() ? "b1" : facts.boot_id()));
  facts.set_process(Number(Option(options, "process", absl::StrCat(facts.process()))));
  const bool provisional = Option(options, "provisional", "0") == "1";
  facts.set_protocol(Number(Option(options, "protocol", absl::StrCat(common::kProtocol))));
  facts.set_advertise(Option(options, "advertise", "10.0.0." + name));
  facts.set_machine_id(Option(options, "machine", facts.machine_id()));
  facts.set_oversubscribe_cpu(Option(options, "oversubscribe", "0") == "1");
  SetLimits(Option(options, "limits", ""), facts);
  if (options.contains("runtime"))
    facts.mutable_containers()->set_runtime(Option(options, "runtime", ""));
  if (options.contains("lacks"))
    facts.mutable_containers()->add_lacks(Option(options, "lacks", ""));
  coordinator::WorkerRegisteredInput input{++session_, {}};
  *input.message.mutable_facts() = facts;
  input.message.set_cleared(Option(options, "cleared", "0") == "1");
  const bool forgetful = Option(options, "state", "kept") == "lost";
  if (forgetful) statuses_[name].clear();
  for (const auto& [key, status] : statuses_[name]) *input.message.add_attempts() = status;
  Take(std::move(input));
  const auto node = state_.nodes.find(name);
  if (node == state_.nodes.end() || node->second.session != session_) return;  // refused
  // Its host is clear at once, unless a scenario is about clearing.
  if (!provisional && !node->second.cleared) Cleared(words);
}

// cleared NODE: nothing is alive there except what it has reported to hold.
void ClusterScript::Cleared(const Words& words) {
  v1::WorkerMessage message;
  message.mutable_cleared();
  for (const auto& [key, status] : statuses_[words.at(1)]) {
    v1::Cleared::Held* held = message.mutable_cleared()->add_held();
    held->set_job(key.first);
    held->set_attempt(key.second);
  }
  Say(words.at(1), std::move(message));
}

v1::JobSpec ClusterScript::SpecOf(Options& options) {
  v1::JobSpec spec;
  spec.set_name(Option(options, "name", ""));
  spec.add_command("train");
  spec.set_workdir("/w");
  v1::Shape* shape = spec.mutable_shape();
  shape->set_processes(Number(Option(options, "n", "0")));
  shape->set_per_node(Number(Option(options, "per_node", "0")));
  const std::string nodes = Option(options, "nodes", "0");
  const std::vector<std::string> range = absl::StrSplit(nodes, ':');
  shape->set_min_nodes(Number(range.front()));
  shape->set_max_nodes(Number(range.back()));
  shape->mutable_device()->set_kind(Option(options, "kind", "cpu"));
  const std::string cpus = Option(options, "cpus", ""), memory = Option(options, "memory", "");
  if (!cpus.empty()) shape->mutable_limits()->set_cpu_millis(Number(cpus) * 1000);
  if (!memory.empty()) shape->mutable_limits()->set_memory_bytes(Number(memory) << 20);
  if (const std::string setup = Option(options, "setup", ""); !setup.empty()) spec.add_setup(setup);
  if (const std::string image = Option(options, "image", ""); !image.empty())
    spec.mutable_container()->set_image(image);
  if (const std::string type = Option(options, "precision", ""); !type.empty())
    (*spec.mutable_env())["ACCELERATE_MIXED_PRECISION"] = type;
  spec.set_priority(Number(Option(options, "priority", "0")));
  spec.set_restarts(Number(Option(options, "restarts", "0")));
  spec.set_max_duration_ms(Number(Option(options, "limit_ms", "0")));
  if (options.contains("preemptible"))
    spec.set_preemptible(Option(options, "preemptible", "") == "1");
  spec.set_project(Option(options, "project", ""));
  spec.set_notice_signal(Number(Option(options, "notice_signal", "0")));
  if (options.contains("label")) {
    const std::pair<std::string, std::string> label =
        absl::StrSplit(Option(options, "label", ""), absl::MaxSplits(':', 1));
    (*spec.mutable_labels())[label.first] = label.second;
  }
  spec.set_estimate_ms(Number(Option(options, "estimate_ms", "0")));
  if (Option(options, "loss", "replace") == "wait") {
    spec.set_on_node_loss(v1::ON_NODE_LOSS_WAIT);
  }
  spec.mutable_checkpoint()->set_keep(Number(Option(options, "keep", "0")));
  for (const auto output : absl::StrSplit(Option(options, "outputs", ""), ',', absl::SkipEmpty())) {
    spec.add_outputs(std::string(output));
  }
  return spec;
}

// plan, with the options of submit: what would happen to such a job.
void ClusterScript::Plan(Options& options) {
  coordinator::SubmitInput input;
  input.caller.principal = Option(options, "by", "uid:1");
  *input.request.mutable_spec() = SpecOf(options);
  const auto plan = coordinator::PlanSubmit(coordinator::ShareForPlans(state_), input, now_);
  if (!plan.ok()) return out_.push_back(std::string(plan.status().message()));
  constexpr const char* kOutcomes[] = {"?", "now", "later", "never"};
  out_.push_back(absl::StrCat(
      kOutcomes[plan->outcome()], ": ",
      plan->has_attempt() ? coordinator::DescribeAttempt(plan->attempt()) : plan->reason()));
  for (const std::string& detail : plan->details()) out_.push_back("  " + detail);
  if (!plan->smaller().empty()) out_.push_back("  starts now with " + plan->smaller());
}

void ClusterScript::Submit(const Words&, Options& options) {
  coordinator::SubmitInput input;
  input.caller.principal = Option(options, "by", "uid:1");
  *input.request.mutable_spec() = SpecOf(options);
  input.request.set_idempotency_key(Option(options, "key", ""));
  if (options.contains("from")) {  // STEP.ATTEMPT of another job's checkpoint
    const std::pair<std::string, std::string> from =
        absl::StrSplit(Option(options, "from", ""), '.');
    v1::Checkpoint& checkpoint = input.resume_from.emplace();
    checkpoint.set_step(Number(from.first));
    checkpoint.set_attempt(Number(from.second));
    checkpoint.set_parts(1);
    checkpoint.add_parts_present(0);
    checkpoint.set_state(v1::CHECKPOINT_STATE_COMMITTED);
    checkpoint.set_file_count(1);
    checkpoint.add_files()->set_sha256(Blob("inherited"));
  }
  input.request.set_queue_anyway(Option(options, "anyway", "0") == "1");
  input.request.set_dry_run(Option(options, "dry", "0") == "1");
  Take(std::move(input));
}

v1::AttemptStatus& ClusterScript::StatusOf(const std::string& node, const AttemptKey& key) {
  v1::AttemptStatus& status = statuses_[node][key];
  status.set_job(key.first);
  status.set_attempt(key.second);
  return status;
}

const v1::Attempt& ClusterScript::AttemptOf(uint64_t job) const {
  const auto live = state_.jobs.find(job);
  if (live == state_.jobs.end() || live->second.attempts().empty()) {
    throw std::runtime_error(absl::StrCat("job ", job, " has no attempt"));
  }
  return *live->second.attempts().rbegin();
}

// status NODE JOB.ATTEMPT [port=N] [started=N] [phase=ended] [failure=text] [short=text] [pending=1]
void ClusterScript::Status(const Words& words, Options& options) {
  const std::pair<std::string, std::string> id = absl::StrSplit(words.at(2), '.');
  const AttemptKey key{Number(id.first), Number(id.second)};
  v1::AttemptStatus& status = StatusOf(words.at(1), key);
  if (options.contains("port")) {
    status.set_master_port(Number(Option(options, "port", "")));
    status.set_phase(v1::ATTEMPT_PHASE_HOLDING);
  }
  if (Option(options, "ready", "0") == "1") {
    status.set_ready(true);
    status.set_phase(v1::ATTEMPT_PHASE_HOLDING);
  }
  if (options.contains("started")) {
    status.set_ranks_started(Number(Option(options, "started", "")));
    status.set_phase(v1::ATTEMPT_PHASE_RUNNING);
  }
  if (options.contains("ran")) status.set_ran_ms(Number(Option(options, "ran", "0")));
  if (Option(options, "lost", "0") == "1") {  // its supervisor
    status.set_phase(v1::ATTEMPT_PHASE_ENDED);
    status.set_failure("the supervisor was killed");
    status.set_failure_cause(v1::STOP_CAUSE_SUPERVISOR_LOST);
  }
  if (Option(options, "phase", "") == "ended") status.set_phase(v1::ATTEMPT_PHASE_ENDED);
  if (options.contains("failure")) {
    status.set_failure(Option(options, "failure", ""));
    status.set_failure_cause(v1::STOP_CAUSE_LAUNCH_FAILED);
  }
  if (options.contains("short")) {  // others use up what the node has
    status.set_phase(v1::ATTEMPT_PHASE_ENDED);
    status.set_how_ended(common::kEndedForShortage);
    status.set_failure(Option(options, "short", ""));
    status.set_failure_cause(v1::STOP_CAUSE_LAUNCH_INTERRUPTED);
  }
  if (options.contains("doing")) {
    status.mutable_preparation()->set_doing(Option(options, "doing", ""));
    status.set_phase(v1::ATTEMPT_PHASE_HOLDING);
  }
  if (options.contains("setup_ms")) {  // done
    v1::Preparation* done = status.mutable_preparation();
    done->clear_doing();
    done->set_ran_setup(true);
    done->set_setup_ms(Number(Option(options, "setup_ms", "0")));
    done->set_setup_output("installed");
  }
  status.set_checkpoints_pending(Option(options, "pending", "0") == "1");
  if (Option(options, "resume_damaged", "0") == "1") {
    status.set_resume_damaged(true);
    status.set_failure_cause(v1::STOP_CAUSE_LAUNCH_INTERRUPTED);
  }
  status.set_checkpoint_error(Option(options, "checkpoint_error", ""));
  if (const std::string toolkit = Option(options, "built_for_cuda", ""); !toolkit.empty()) {
    status.mutable_versions()->set_framework("torch 2.11.0");
    status.mutable_versions()->set_toolkit(toolkit);
    status.mutable_versions()->set_driver("550.54.15");
    status.mutable_versions()->set_driver_cuda("12.4");
  }
  SayStatus(words.at(1), key);
}

void ClusterScript::Launch(uint64_t job) {
  const AttemptKey key{job, AttemptOf(job).number()};
  const std::string master = AttemptOf(job).parts(0).node();
  v1::AttemptStatus& held = StatusOf(master, key);
  held.set_phase(v1::ATTEMPT_PHASE_HOLDING);
  held.set_master_port(20000 + static_cast<uint32_t>(job * 10 + key.second));
  SayStatus(master, key);
  const v1::Attempt attempt = AttemptOf(job);
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.node() == master) continue;
    StatusOf(part.node(), key).set_phase(v1::ATTEMPT_PHASE_HOLDING);
    StatusOf(part.node(), key).set_ready(true);
    SayStatus(part.node(), key);
  }
  for (const v1::NodePart& part : attempt.parts()) {
    v1::AttemptStatus& status = StatusOf(part.node(), key);
    status.set_phase(v1::ATTEMPT_PHASE_RUNNING);
    status.set_ranks_started(part.local_world_size());
    SayStatus(part.node(), key);
  }
}

void ClusterScript::Finish(uint64_t job) {
  const v1::Attempt attempt = AttemptOf(job);
  for (const v1::NodePart& part : attempt.parts()) {
    v1::AttemptStatus& status = StatusOf(part.node(), {job, attempt.number()});
    for (uint32_t i = 0; i < part.local_world_size(); ++i) {
      status.add_exits()->set_rank(part.first_rank() + i);
    }
    status.set_phase(v1::ATTEMPT_PHASE_ENDED);
    SayStatus(part.node(), {job, attempt.number()});
  }
}

// exit JOB RANK CODE|sigN [at_us=N] [stopped=1] [ended=1] [says=text] [itself=text]
// itself: why the node stopped its ranks unasked
void ClusterScript::Exit(const Words& words, Options& options) {
  const uint64_t job = Number(words.at(1));
  const uint32_t rank = Number(words.at(2));
  const v1::Attempt attempt = AttemptOf(job);
  for (const v1::NodePart& part : attempt.parts()) {
    if (rank < part.first_rank() || rank >= part.first_rank() + part.local_world_size()) continue;
    const AttemptKey key{job, attempt.number()};
    v1::AttemptStatus& status = StatusOf(part.node(), key);
    v1::RankExit* exit = status.add_exits();
    exit->set_rank(rank);
    if (absl::StartsWith(words.at(3), "sig")) {
      exit->set_signal(Number(words.at(3).substr(3)));
    } else {
      exit->set_exit_code(Number(words.at(3)));
    }
    exit->set_since_start_us(Number(Option(options, "at_us", "1000")));
    exit->set_stopped_by_us(Option(options, "stopped", "0") == "1");
    exit->set_last_lines(Option(options, "says", ""));
    exit->set_out_of_memory(Option(options, "oom", "0") == "1");
    exit->set_memory_limit_bytes(Number(Option(options, "memory_limit", "0")));
    exit->set_launch_errno(Number(Option(options, "errno", "0")));
    exit->set_launch_error(Option(options, "error", ""));
    if (options.contains("itself")) {
      status.set_failure(Option(options, "itself", ""));
      status.set_failure_cause(v1::STOP_CAUSE_NODE_LOST);
    }
    if (Option(options, "ended", "0") == "1") status.set_phase(v1::ATTEMPT_PHASE_ENDED);
    SayStatus(part.node(), key);
  }
}

// checkpoint NODE JOB.ATTEMPT STEP PART/PARTS [path=P] [bytes=N] [hash=NAME]; step -1: outputs
void ClusterScript::Checkpoint(const Words& words, Options& options) {
  const std::pair<std::string, std::string> id = absl::StrSplit(words.at(2), '.');
  const std::pair<std::string, std::string> part = absl::StrSplit(words.at(4), '/');
  v1::WorkerMessage message;
  v1::CheckpointPartReady* ready = message.mutable_checkpoint_part();
  ready->set_job(Number(id.first));
  ready->set_attempt(Number(id.second));
  ready->set_step(Number(words.at(3)));
  ready->set_part(Number(part.first));
  ready->set_parts(Number(part.second));
  v1::CheckpointFile* file = ready->add_files();
  file->set_path(Option(options, "path", absl::StrCat("shard-", ready->part())));
  file->set_size(static_cast<uint64_t>(Number(Option(options, "bytes", "100"))));
  file->set_part(ready->part());
  file->set_sha256(Blob(
      Option(options, "hash", absl::StrCat("h", words.at(2), "/", words.at(3), "/", part.first))));
  Say(words.at(1), std::move(message));
}

// A real hash; the output shows the name.
std::string ClusterScript::Blob(const std::string& name) {
  const std::string sha256 = common::Sha256Hex(name);
  blob_names_[sha256] = name;
  return sha256;
}

void ClusterScript::Bulk(const Words& words, Options& options) {
  const coordinator::Caller caller{Option(options, "by", "uid:1")};
  const std::string& verb = words.at(0);
  if (verb == "cancel") {
    coordinator::CancelInput input{caller, {}, options.contains("grace"), 0};
    input.grace_ms = Number(Option(options, "grace", "0"));
    for (size_t i = 1; i < words.size(); ++i) input.jobs.push_back(Number(words[i]));
    Take(std::move(input));
  } else if (verb == "signal") {
    Take(coordinator::SignalInput{caller, static_cast<uint64_t>(Number(words.at(1))),
                                  static_cast<int32_t>(Number(words.at(2)))});
  } else if (verb == "stop") {
    coordinator::StopInput input{.caller = caller};
    if (options.contains("notice_ms")) input.notice_ms = Number(Option(options, "notice_ms", ""));
    for (size_t i = 1; i < words.size(); ++i) input.jobs.push_back(Number(words[i]));
    Take(std::move(input));
  } else if (verb == "release") {
    Take(coordinator::ReleaseInput{.caller = caller,
                                   .jobs = {static_cast<uint64_t>(Number(words.at(1)))},
                                   .from_scratch = Option(options, "from-scratch", "0") == "1"});
  } else if (verb == "set") {
    coordinator::SetInput input{.caller = caller,
                                .jobs = {static_cast<uint64_t>(Number(words.at(1)))}};
    if (Option(options, "as", "") == "operator") input.caller.role = v1::ROLE_OPERATOR;
    if (options.contains("priority")) input.priority = Number(Option(options, "priority", ""));
    if (options.contains("estimate_ms"))
      input.estimate_ms = Number(Option(options, "estimate_ms", ""));
    if (options.contains("project")) input.project = Option(options, "project", "");
    if (options.contains("urgent")) input.urgent = Option(options, "urgent", "") == "1";
    Take(std::move(input));
  } else if (verb == "projects") {  // projects NAME:KIND:QUOTA[/LIMIT][*WEIGHT]… person=N
    coordinator::ProjectsInput input;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::pair<std::string, std::string> name =
          absl::StrSplit(words[i], absl::MaxSplits(':', 1));
      const std::pair<std::string, std::string> weight =
          absl::StrSplit(name.second, absl::MaxSplits('*', 1));
      const std::pair<std::string, std::string> kind =
          absl::StrSplit(weight.first, absl::MaxSplits(':', 1));
      const std::pair<std::string, std::string> counts =
          absl::StrSplit(kind.second, absl::MaxSplits('/', 1));
      v1::ProjectShare& share = *input.projects.add_projects();
      share.set_name(name.first);
      share.set_weight(weight.second.empty() ? 1 : Number(weight.second));
      (*share.mutable_quota())[kind.first] = Number(counts.first);
      if (!counts.second.empty()) (*share.mutable_limit())[kind.first] = Number(counts.second);
      if (options.contains("person"))
        (*share.mutable_person_limit())[kind.first] = Number(Option(options, "person", ""));
      share.set_person_jobs(Number(Option(options, "person_jobs", "0")));
      if (options.contains("max_priority"))
        share.set_max_priority(Number(Option(options, "max_priority", "")));
    }
    Take(std::move(input));
  } else if (verb == "progress") {
    const auto job = static_cast<uint64_t>(Number(words.at(1)));
    Take(coordinator::ProgressInput{job, AttemptOf(job).number(), Number(words.at(2))});
  } else if (verb == "remove") {
    Take(coordinator::RemoveInput{caller,
                                  {{static_cast<uint64_t>(Number(words.at(1))), "",
                                    caller.principal, Option(options, "key", "")}}});
  } else if (verb == "ckpt-rm") {
    Take(coordinator::RemoveCheckpointInput{
        caller, static_cast<uint64_t>(Number(words.at(1))), Number(words.at(2)),
        static_cast<uint32_t>(Number(Option(options, "attempt", "0")))});
  } else if (verb == "flag") {
    Take(coordinator::FlagCheckpointInput{
        static_cast<uint64_t>(Number(words.at(1))), Number(words.at(2)),
        static_cast<uint32_t>(Number(Option(options, "attempt", "0"))), "hash differs"});
  } else if (verb == "drain" || verb == "undrain") {
    coordinator::DrainInput input{caller, words.at(1), verb == "drain",
                                  Option(options, "reason", "")};
    input.evict = Option(options, "evict", "") == "1";
    Take(std::move(input));
  } else if (verb == "declare-dead") {
    Take(coordinator::DeclareDeadInput{caller, words.at(1), Option(options, "reason", "")});
  } else if (verb == "remove-node") {
    Take(coordinator::RemoveNodeInput{caller, words.at(1), Option(options, "reason", "")});
  } else {
    throw std::runtime_error("unknown verb " + verb);
  }
}

// tick: time passes without any contact. wait: connected nodes send heartbeats meanwhile.
void ClusterScript::Advance(int64_t milliseconds, bool heartbeats) {
  const int64_t end = now_.mono_ms + milliseconds;
  while (now_.mono_ms < end) {
    int64_t next = end;
    if (const auto deadline = coordinator::NextDeadlineMonoMs(state_)) {
      next = std::min(next, std::max(*deadline, now_.mono_ms + 1));
    }
    if (heartbeats) next = std::min(next, now_.mono_ms + state_.settings.heartbeat_ms);
    now_.wall_ms += next - now_.mono_ms;
    now_.lived_ms += next - now_.mono_ms;
    now_.mono_ms = next;
    for (const auto& [name, facts] : facts_) {
      const auto node = state_.nodes.find(name);
      if (!heartbeats || node == state_.nodes.end() || !node->second.record.connected()) continue;
      v1::WorkerMessage message;
      message.mutable_heartbeat();
      Say(name, std::move(message));
    }
    Take(coordinator::TickInput{});
  }
}

// What holds after every event, whatever a scenario is about.
void Holds(const coordinator::ClusterState& state) {
  const std::string broken = coordinator::BrokenInvariant(state);
  if (!broken.empty()) throw std::runtime_error("broken invariant: " + broken);
}

void Fits(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// The coordinator is killed and restarts from its last snapshot and its journal, `down` later; wall
// time jumps by an hour. Or the one named `head` takes over.
void ClusterScript::Restart(int64_t down_ms, const std::string& head) {
  const std::string before = coordinator::MakeSnapshot(state_).SerializeAsString();
  coordinator::ClusterState fresh;
  fresh.settings = state_.settings;
  fresh.settings.head = head;
  now_.mono_ms += down_ms;
  now_.wall_ms += 3'600'000;
  Fits(coordinator::ReplaySnapshot(fresh, base_, now_));
  for (const v1::Event& event : journal_) Fits(coordinator::ReplayEvent(fresh, event, now_));
  coordinator::TakeFinished(fresh);
  for (const auto& [id, job] : finished_) {
    if (!job.idempotency_key().empty()) {
      coordinator::RestoreKey(fresh, coordinator::OwnerKey(job), job.idempotency_key(), id,
                              job.spec_hash());
    }
  }
  // The replayed state equals the recorded one, except for contact, which is volatile.
  for (auto* side : {&state_, &fresh}) {
    for (auto& [name, node] : side->nodes) {
      node.record.set_connected(false);
      node.record.set_last_contact_ms(0);
      node.session = 0;
    }
  }
  out_.push_back(coordinator::MakeSnapshot(state_).SerializeAsString() ==
                         coordinator::MakeSnapshot(fresh).SerializeAsString()
                     ? "replayed state equals the recorded one"
                     : "REPLAYED STATE DIFFERS");
  state_ = std::move(fresh);
  base_ = coordinator::MakeSnapshot(state_);
  journal_.clear();
  Show(coordinator::ResumeAfterReplay(state_, now_, Holds));
}

void ClusterScript::Why(uint64_t job) {
  const auto live = state_.jobs.find(job);
  const v1::WhyResponse why =
      coordinator::Why(state_, live != state_.jobs.end() ? live->second : finished_.at(job), now_);
  out_.push_back(why.text());
  for (const std::string& detail : why.details()) out_.push_back("  " + detail);
}

void ClusterScript::Usage(const std::string& by) {
  v1::ListUsageRequest request;
  for (const auto key : absl::StrSplit(by, ',')) request.add_by(std::string(key));
  const absl::StatusOr<v1::ListUsageResponse> usage = coordinator::ViewUsage(state_, request, now_);
  if (!usage.ok()) throw std::runtime_error(std::string(usage.status().message()));
  const auto minutes = [](uint64_t ms) { return static_cast<double>(ms) / 60'000; };
  for (const v1::UsageGroup& group : usage->groups()) {
    out_.push_back(absl::StrCat(
        absl::StrJoin(group.keys(), " "), ": used ", minutes(group.used_ms()), " min, borrowed ",
        minutes(group.borrowed_ms()), ", failed ", minutes(group.failed_ms()), ", left ",
        minutes(group.left_ms()), "; attempts ", group.attempts()));
  }
}

void ClusterScript::Queue() {
  const coordinator::SchedulingState shared = coordinator::ShareForPlans(state_);
  const v1::ListQueueResponse queue =
      coordinator::ViewQueue(shared, coordinator::ForeseeStarts(shared, now_), 0, now_);
  for (const v1::QueuedJob& job : queue.jobs()) {
    out_.push_back(absl::StrCat(
        job.name(), job.urgent() ? " urgent" : "", ": ", job.needs(), "; ",
        job.has_starts() ? coordinator::DescribeStarts(job.starts()) : "start not known", "; ",
        job.reason(), job.place().empty() ? "" : absl::StrCat("; held: ", job.place())));
  }
}

void ClusterScript::Say(const std::string& node, v1::WorkerMessage message) {
  Take(coordinator::WorkerSaidInput{state_.nodes.at(node).session, node, std::move(message)});
}

void ClusterScript::SayStatus(const std::string& node, const AttemptKey& key) {
  v1::WorkerMessage message;
  *message.mutable_attempt_status() = statuses_[node][key];
  Say(node, std::move(message));
}

void ClusterScript::Take(Input input) {
  Show(coordinator::TakeTurn(state_, {&input, 1}, now_, Holds));
  const std::string left = LeftUndone(state_, now_);
  if (!left.empty()) throw std::runtime_error("a turn left a consequence undone: " + left);
}

void ClusterScript::Show(const coordinator::Turn& turn) {
  for (const v1::Event& event : turn.events) {
    journal_.push_back(event);
    out_.push_back(absl::StrCat(event.job() != 0 ? absl::StrCat("job ", event.job(), ": ") : "",
                                coordinator::DescribeEvent(event)));
  }
  for (const coordinator::Command& command : turn.commands) {
    if (command.message.has_heartbeat_reply()) continue;
    out_.push_back(absl::StrCat("→ ", command.node, ": ", DescribeCommand(command.message)));
    if (command.message.has_forget()) {
      statuses_[command.node].erase(
          {command.message.forget().job(), command.message.forget().attempt()});
    }
  }
  for (const coordinator::Reply& reply : turn.replies) {
    if (!reply.status.ok()) out_.push_back(absl::StrCat("refused: ", reply.status.message()));
    if (reply.submit.job() != 0) {
      out_.push_back(absl::StrCat("answer: job ", reply.submit.job(), " ", reply.submit.name(),
                                  reply.submit.existed() ? " (known)" : "",
                                  reply.submit.queue_position() > 0
                                      ? absl::StrCat(" #", reply.submit.queue_position())
                                      : ""));
    } else if (!reply.submit.layout().empty() || !reply.submit.reason().empty()) {
      out_.push_back(absl::StrCat("plan: ", reply.submit.layout(), reply.submit.reason()));
    }
    for (const v1::BulkResult& result : reply.results) {
      if (!result.message().empty()) out_.push_back(absl::StrCat("answer: ", result.message()));
    }
  }
  if (!turn.unused_blobs.empty()) {
    std::vector<std::string> names;
    for (const std::string& blob : turn.unused_blobs) names.push_back(blob_names_[blob]);
    std::sort(names.begin(), names.end());
    out_.push_back("unused blobs: " + absl::StrJoin(names, " "));
  }
  for (const v1::JobRecord& job : turn.finished) {
    out_.push_back(absl::StrCat("over: ", job.name(), " exit code ", job.exit_code()));
    finished_[job.id()] = job;
  }
}

std::string RunScenario(const std::string& text) {
  ClusterScript script;
  std::string result;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "> ")) {
      absl::StrAppend(&result, line, "\n");
      for (const std::string& out : script.Run(std::string(line.substr(2)))) {
        absl::StrAppend(&result, out, "\n");
      }
      absl::StrAppend(&result, "\n");
    } else if (absl::StartsWith(line, "#")) {
      absl::StrAppend(&result, line, "\n");
    }
  }
  return result;
}

}  // namespace muster::testing
