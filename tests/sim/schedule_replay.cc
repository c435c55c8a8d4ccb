// A trace of jobs through the coordinator's core, with simulated nodes and a simulated clock: how long jobs wait under
// each policy, and what the core takes for it. `./dev bench schedule` runs it; docs/benchmarks.md has the figures.
//   bench_schedule replay FILE NODES DEVICES-PER-NODE strict|backfill|[reclaim:]PROJECT=SHARE,… none|true|given
//     a CSV with the columns submit_s, duration_s, gpus or procs, and perhaps vc and estimate_s → a line of JSON.
//     Shares: quotas of the projects (vc), scaled so that they make up the cluster. reclaim: borrowed jobs give way; each
//     can save at any time, and continues with what it had when it was asked
//   bench_schedule load QUEUED NODES
//     so many nodes, all busy, and so many jobs that wait; then jobs end and others come, one a turn → a line of JSON
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/core/state/timers.h"
#include "coordinator/core/turn.h"

namespace {

using namespace muster;
using namespace muster::coordinator;

constexpr size_t kInputsPerTurn = 256;  // as in coordinator/loop/control_loop.h
constexpr int64_t kLongMs = 100LL * 365 * 86'400'000;

struct TracedJob {
  int64_t submit_ms = 0;
  int64_t duration_ms = 0;
  int64_t estimate_ms = 0;  // 0: none
  uint32_t devices = 1;
  std::string project;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

std::vector<TracedJob> ReadTrace(const std::string& path, const std::string& estimates) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) Fail("cannot read " + path);
  std::map<std::string, size_t> columns;
  for (const std::string& name : Fields(line)) columns.emplace(name, columns.size());
  const std::string devices = columns.contains("gpus") ? "gpus" : "procs";
  std::vector<TracedJob> jobs;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = Fields(line);
    const auto text = [&](const std::string& name) {
      return columns.contains(name) ? fields.at(columns.at(name)) : std::string();
    };
    const auto seconds = [&](const std::string& name) {
      return static_cast<int64_t>(std::strtod(text(name).c_str(), nullptr) * 1000);
    };
    TracedJob& job = jobs.emplace_back();
    job.submit_ms = seconds("submit_s");
    job.duration_ms = std::max<int64_t>(1'000, seconds("duration_s"));
    job.devices =
        static_cast<uint32_t>(std::max(1L, std::strtol(text(devices).c_str(), nullptr, 10)));
    job.project = text("vc");
    if (estimates == "true") job.estimate_ms = job.duration_ms;
    if (estimates == "given") job.estimate_ms = seconds("estimate_s");
  }
  return jobs;
}

double At(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * values.size()))];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// The core, its clock, and workers that do at once what they are told.
class Cluster {
 public:
  Cluster(int nodes, int devices, bool backfill, int64_t min_run_ms = kLongMs) {
    state_.settings.suspect_after_ms = kLongMs;
    state_.settings.start_timeout_ms = kLongMs;
    state_.settings.backfill = backfill;
    state_.settings.min_run_ms = min_run_ms;
    // Replays have no owners.
    state_.settings.owner_live_bytes_max = state_.settings.live_bytes_max = UINT64_MAX;
    now_.wall_ms = 1'700'000'000'000;
    now_.mono_ms = now_.lived_ms = 1'000;
    for (int node = 0; node < nodes; ++node) Register(node, devices);
  }

  void Submit(const TracedJob& traced, int devices_per_node) {
    SubmitInput input{.caller = {.principal = "uid:1"}};
    v1::JobSpec& spec = *input.request.mutable_spec();
    spec.add_command("train");
    spec.set_workdir("/");
    spec.set_on_node_loss(
        v1::ON_NODE_LOSS_WAIT);  // nodes are not heard from between the ends of jobs
    spec.mutable_shape()->mutable_device()->set_kind("gpu");
    spec.set_estimate_ms(static_cast<uint64_t>(traced.estimate_ms));
    spec.set_project(traced.project);
    spec.set_preemptible(true);
    const auto whole = static_cast<uint32_t>(devices_per_node);
    if (traced.devices > whole) {
      const uint32_t nodes = (traced.devices + whole - 1) / whole;
      spec.mutable_shape()->set_per_node(whole);
      spec.mutable_shape()->set_min_nodes(nodes);
      spec.mutable_shape()->set_max_nodes(nodes);
    } else {
      spec.mutable_shape()->set_processes(traced.devices);
      spec.mutable_shape()->set_min_nodes(1);
      spec.mutable_shape()->set_max_nodes(1);
    }
    inputs_.push_back(std::move(input));
    left_ms_.push_back(traced.duration_ms);
  }

  void SetQuotas(const std::string& shares, double devices) {
    double sum = 0;
    std::map<std::string, double> by_project;
    for (const std::string& each : Fields(shares)) {
      const size_t equals = each.find('=');
      if (equals == std::string::npos) Fail("not PROJECT=SHARE: " + each);
      sum += by_project[each.substr(0, equals)] = std::strtod(each.c_str() + equals + 1, nullptr);
    }
    ProjectsInput input;
    for (const auto& [project, share] : by_project) {
      v1::ProjectShare& set = *input.projects.add_projects();
      set.set_name(project);
      set.set_weight(1);
      (*set.mutable_quota())["gpu"] = static_cast<uint32_t>(share * devices / sum);
    }
    inputs_.push_back(std::move(input));
    Settle();
  }

  // Until nothing is left to do at this moment.
  void Settle() {
    while (!inputs_.empty()) {
      std::vector<Input> taken(
          std::make_move_iterator(inputs_.begin()),
          std::make_move_iterator(inputs_.begin() + static_cast<std::ptrdiff_t>(
                                                        std::min(inputs_.size(), kInputsPerTurn))));
      inputs_.erase(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(taken.size()));
      Take(taken);
    }
  }

  // The earliest of an end, a timer of the core and `until`; ends what ends then.
  void PassTime(int64_t until_ms) {
    int64_t next = until_ms;
    if (!ends_.empty()) next = std::min(next, ends_.begin()->first);
    const auto timer = NextDeadlineMonoMs(state_);
    const bool is_tick = timer.has_value() && *timer <= next;
    if (is_tick) next = std::max(*timer, now_.mono_ms);
    now_.wall_ms += next - now_.mono_ms;
    now_.lived_ms += next - now_.mono_ms;
    now_.mono_ms = next;
    if (is_tick) inputs_.push_back(TickInput{});
    for (; !ends_.empty() && ends_.begin()->first <= next; ends_.erase(ends_.begin())) {
      ends_at_ms_[ends_.begin()->second] = next - 1'000;
      End(ends_.begin()->second);
    }
    Settle();
  }

  bool HasEnds() const { return !ends_.empty(); }
  void EndOne() {
    const uint64_t job = ends_.begin()->second;
    ends_.erase(ends_.begin());
    End(job);
    Settle();
  }
  void ForgetTurns() {
    turns_us_.clear();
    events_ = 0;
  }
  int64_t now_ms() const { return now_.mono_ms - 1'000; }
  const ClusterState& state() const { return state_; }
  const std::vector<double>& turns_us() const { return turns_us_; }
  uint64_t events() const { return events_; }
  const std::map<uint64_t, int64_t>& starts_ms() const { return starts_ms_; }
  const std::map<uint64_t, int64_t>& ends_at_ms() const { return ends_at_ms_; }
  uint64_t preemptions() const { return preemptions_; }
  size_t preempted() const { return preempted_.size(); }

 private:
  static std::string NameOf(int node) {
    char name[16];
    std::snprintf(name, sizeof name, "node%05d", node);
    return name;
  }

  void Register(int node, int devices) {
    WorkerRegisteredInput input{.session = static_cast<uint64_t>(node) + 1};
    v1::NodeFacts& facts = *input.message.mutable_facts();
    facts.set_name(NameOf(node));
    facts.set_incarnation(1);
    facts.set_boot_id("boot");
    facts.set_protocol(1);  // its host is clear when it registers
    facts.set_advertise("10.0.0.1");
    for (int index = 0; index < devices; ++index) {
      v1::Device& device = *facts.add_devices();
      device.set_kind("gpu");
      device.set_index(static_cast<uint32_t>(index));
    }
    input.message.set_cleared(true);
    sessions_[facts.name()] = input.session;
    inputs_.push_back(std::move(input));
    Settle();
  }

  v1::AttemptStatus& Say(const std::string& node, uint64_t job, uint32_t attempt,
                         v1::AttemptPhase phase) {
    WorkerSaidInput said{.session = sessions_.at(node), .node = node};
    v1::AttemptStatus& status = *said.message.mutable_attempt_status();
    status.set_job(job);
    status.set_attempt(attempt);
    status.set_phase(phase);
    inputs_.push_back(std::move(said));
    return *std::get<WorkerSaidInput>(inputs_.back()).message.mutable_attempt_status();
  }

  void End(uint64_t job, bool stopped = false) {
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

  // The first of its nodes is told.
  void GiveWay(uint64_t job) {
    const auto end = std::find_if(ends_.begin(), ends_.end(),
                                  [&](const auto& each) { return each.second == job; });
    if (end == ends_.end()) return;
    ends_.erase(end);
    const int64_t ran_ms = now_.mono_ms - began_ms_.at(job) - state_.settings.notice_ms;
    left_ms_.at(job - 1) -= std::max<int64_t>(0, ran_ms);
    ++preemptions_;
    preempted_.insert(job);
    End(job, /*stopped=*/true);
  }

  void Take(const std::vector<Input>& taken) {
    const auto begun = std::chrono::steady_clock::now();
    Turn turn = TakeTurn(state_, taken, now_, nullptr);
    turns_us_.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun)
            .count());
    events_ += turn.events.size();
    for (const Reply& reply : turn.replies) {
      if (!reply.status.ok()) Fail(std::string(reply.status.message()));
    }
    for (const v1::Event& event : turn.events) {
      if (!event.has_attempt_started()) continue;
      starts_ms_.try_emplace(event.job(), now_ms());
      began_ms_[event.job()] = now_.mono_ms;
      ends_.emplace(now_.mono_ms + left_ms_.at(event.job() - 1), event.job());
    }
    for (const Command& command : turn.commands) Obey(command);
  }

  void Obey(const Command& command) {
    const v1::CoordinatorMessage& message = command.message;
    if (message.has_prepare()) {
      v1::AttemptStatus& status = Say(command.node, message.prepare().job(),
                                      message.prepare().attempt(), v1::ATTEMPT_PHASE_HOLDING);
      status.set_ready(true);
      if (message.prepare().count() > 0) status.set_master_port(20'000);
    } else if (message.has_stop()) {
      GiveWay(message.stop().job());
    } else if (message.has_launch()) {
      Say(command.node, message.launch().job(), message.launch().attempt(),
          v1::ATTEMPT_PHASE_RUNNING)
          .set_ranks_started(message.launch().part().local_world_size());
    }
  }

  ClusterState state_;
  Now now_;
  std::vector<Input> inputs_;
  std::map<std::string, uint64_t> sessions_;
  std::vector<int64_t> left_ms_;  // of job 1, 2, …
  std::map<uint64_t, int64_t> began_ms_;
  uint64_t preemptions_ = 0;
  std::set<uint64_t> preempted_;
  std::map<uint64_t, int64_t> ends_at_ms_;
  std::multimap<int64_t, uint64_t> ends_;
  std::map<uint64_t, int64_t> starts_ms_;
  std::vector<double> turns_us_;
  uint64_t events_ = 0;
};

void PrintTurns(const Cluster& cluster, double seconds, size_t jobs) {
  std::printf(
      "\"seconds\": %.3f, \"jobs_per_s\": %.0f, \"events\": %llu, \"turn_p50_us\": %.0f, "
      "\"turn_p99_us\": %.0f, \"turn_max_us\": %.0f}\n",
      seconds, static_cast<double>(jobs) / seconds,
      static_cast<unsigned long long>(cluster.events()), At(cluster.turns_us(), 0.5),
      At(cluster.turns_us(), 0.99), At(cluster.turns_us(), 1));
}

double SecondsSince(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

int Replay(const std::string& path, int nodes, int devices, const std::string& policy,
           const std::string& estimates) {
  const std::vector<TracedJob> jobs = ReadTrace(path, estimates);
  const auto begun = std::chrono::steady_clock::now();
  constexpr std::string_view kReclaim = "reclaim:";
  const bool reclaims = policy.starts_with(kReclaim);
  const std::string shares = reclaims ? policy.substr(kReclaim.size()) : policy;
  Cluster cluster(nodes, devices, policy != "strict", reclaims ? 30 * 60'000 : kLongMs);
  if (shares.find('=') != std::string::npos) cluster.SetQuotas(shares, nodes * devices);
  size_t next = 0;
  while (next < jobs.size() || cluster.HasEnds()) {
    const int64_t until = next < jobs.size() ? jobs[next].submit_ms + 1'000 : kLongMs;
    cluster.PassTime(until);
    for (; next < jobs.size() && jobs[next].submit_ms <= cluster.now_ms(); ++next)
      cluster.Submit(jobs[next], devices);
    cluster.Settle();
  }
  const double seconds = SecondsSince(begun);
  std::vector<double> waits, large, completions;
  for (const auto& [job, start_ms] : cluster.starts_ms()) {
    const TracedJob& traced = jobs[job - 1];
    // All that it did not run, what preemptions cost included.
    const int64_t done_ms = cluster.ends_at_ms().at(job) - traced.submit_ms;
    const double wait_h = static_cast<double>(done_ms - traced.duration_ms) / 3'600'000;
    waits.push_back(wait_h);
    if (traced.devices >= 8) large.push_back(wait_h);
    completions.push_back(wait_h + static_cast<double>(traced.duration_ms) / 3'600'000);
  }
  std::printf(
      "{\"jobs\": %zu, \"started\": %zu, \"mean_jct_h\": %.3f, \"mean_wait_h\": %.3f, "
      "\"p95_wait_h\": %.2f, \"max_wait_h\": %.2f, \"mean_wait_8_h\": %.3f, "
      "\"preemptions\": %llu, \"preempted\": %zu, ",
      jobs.size(), waits.size(), Mean(completions), Mean(waits), At(waits, 0.95), At(waits, 1),
      Mean(large), static_cast<unsigned long long>(cluster.preemptions()), cluster.preempted());
  PrintTurns(cluster, seconds, jobs.size());
  return 0;
}

int Load(int queued, int nodes) {
  constexpr int kDevices = 8, kTurns = 2'000;
  std::mt19937 random(1);
  const auto job = [&] {
    const uint32_t shapes[] = {1, 1, 2, 4, 8, 8, 16, 64};
    TracedJob made{.duration_ms = kLongMs};
    made.devices = shapes[random() % std::size(shapes)];
    if (random() % 2 == 0) made.estimate_ms = static_cast<int64_t>(random() % 1'000 + 1) * 60'000;
    return made;
  };
  Cluster cluster(nodes, kDevices, true);
  while (cluster.state().queue.size() < static_cast<size_t>(queued)) {
    for (size_t i = 0; i < kInputsPerTurn; ++i) cluster.Submit(job(), kDevices);
    cluster.Settle();
  }
  cluster.ForgetTurns();
  const auto begun = std::chrono::steady_clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    if (turn % 2 == 0) cluster.EndOne();
    cluster.Submit(job(), kDevices);
    cluster.Settle();
  }
  std::printf("{\"queued\": %zu, \"nodes\": %d, \"running\": %zu, ", cluster.state().queue.size(),
              nodes, cluster.state().active.size());
  PrintTurns(cluster, SecondsSince(begun), kTurns);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "replay" && argc == 7)
    return Replay(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argv[5], argv[6]);
  if (what == "load" && argc == 4) return Load(std::atoi(argv[2]), std::atoi(argv[3]));
  Fail(
      "usage: bench_schedule replay FILE NODES DEVICES strict|backfill|[reclaim:]PROJECT=SHARE,… "
      "none|true|given\n"
      "       bench_schedule load QUEUED NODES");
}
