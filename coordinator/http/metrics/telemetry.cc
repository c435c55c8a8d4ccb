#include "coordinator/http/metrics/telemetry.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/version.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/views/views.h"
#include "coordinator/identity/cluster.h"

namespace muster::coordinator::http {
namespace {

using Kind = Exposition::Kind;

constexpr double kMsPerS = 1e3;

double SecondsBetween(int64_t from_ms, int64_t to_ms) {
  return to_ms > from_ms ? static_cast<double>(to_ms - from_ms) / kMsPerS : 0;
}

void CountNodes(const ClusterState& state, ClusterFacts& facts) {
  for (const v1::NodeState each :
       {v1::NODE_STATE_ALIVE, v1::NODE_STATE_SUSPECT, v1::NODE_STATE_LOST})
    facts.nodes[absl::AsciiStrToLower(NodeStateName(each))] = 0;
  for (const auto& [name, node] : state.nodes) {
    ++facts.nodes[absl::AsciiStrToLower(NodeStateName(node.record.state()))];
    facts.draining += node.record.draining() ? 1 : 0;
    facts.connected += node.record.connected() ? 1 : 0;
    if (IsInService(node)) {
      for (const v1::Device& device : node.record.facts().devices())
        ++facts.devices[device.kind()].total;
    }
    for (const auto& [kind, indexes] : node.used) facts.devices[kind].used += indexes.size();
  }
}

void WriteCluster(const ClusterFacts& facts, Exposition& page) {
  page.Family("muster_jobs", Kind::kGauge, "Jobs that are not over, by state.");
  for (const auto& [state, count] : facts.jobs)
    page.Sample({{"state", state}}, static_cast<double>(count));
  page.One("muster_jobs_held", Kind::kGauge, "Queued jobs that wait to be released.",
           static_cast<double>(facts.held));
  page.One("muster_queue_jobs", Kind::kGauge, "Jobs that wait for devices.",
           static_cast<double>(facts.waiting));
  page.One("muster_queue_oldest_seconds", Kind::kGauge,
           "How long the job that has waited longest has waited.", facts.oldest_waiting_s);
  page.One("muster_job_numbers_total", Kind::kCounter,
           "Numbers given to jobs. A restore from a backup skips some.",
           static_cast<double>(facts.job_numbers));
  page.One("muster_events_total", Kind::kCounter, "Events in the journal's numbering.",
           static_cast<double>(facts.events));
  page.Family("muster_nodes", Kind::kGauge, "Registered nodes, by state.");
  for (const auto& [state, count] : facts.nodes)
    page.Sample({{"state", state}}, static_cast<double>(count));
  page.One("muster_nodes_connected", Kind::kGauge, "Nodes whose worker is connected.",
           static_cast<double>(facts.connected));
  page.One("muster_nodes_draining", Kind::kGauge, "Nodes that take no new jobs on request.",
           static_cast<double>(facts.draining));
  page.One("muster_cluster_alarm", Kind::kGauge,
           "1 while a problem with the cluster as a whole is reported (jobctl nodes ls).",
           facts.is_alarmed ? 1 : 0);
  page.Family("muster_devices", Kind::kGauge, "Devices of nodes in service, by kind.");
  for (const auto& [kind, devices] : facts.devices)
    page.Sample({{"kind", kind}}, static_cast<double>(devices.total));
  page.Family("muster_devices_used", Kind::kGauge, "Devices that jobs hold, by kind.");
  for (const auto& [kind, devices] : facts.devices)
    page.Sample({{"kind", kind}}, static_cast<double>(devices.used));
}

// Sums over the newest batch of each node.
struct Measured {
  bool any = false;
  double cpu_cores = 0;
  double resident_bytes = 0;
  double utilization = 0;
  uint64_t utilized_devices = 0;
};

Measured MeasureJob(const SampleStore& samples, uint64_t job) {
  Measured sum;
  for (const NewestSample& newest : samples.Newest(job)) {
    sum.any = true;
    for (const v1::RankSample& rank : newest.batch->ranks()) {
      sum.cpu_cores += rank.cpu_cores();
      sum.resident_bytes += static_cast<double>(rank.resident_bytes());
    }
    for (const v1::DeviceSample& device : newest.batch->devices()) {
      if (!device.has_utilization()) continue;
      sum.utilization += device.utilization();
      ++sum.utilized_devices;
    }
  }
  return sum;
}

void WriteJobs(const ClusterFacts& facts, const SampleStore& samples, Exposition& page) {
  std::vector<Measured> measured;
  for (const ClusterFacts::Job& job : facts.running)
    measured.push_back(MeasureJob(samples, job.summary.id()));
  const auto family = [&](std::string_view name, std::string_view help, auto value_of) {
    page.Family(name, Kind::kGauge, help);
    for (size_t at = 0; at < facts.running.size(); ++at) {
      const std::optional<double> value = value_of(facts.running[at], measured[at]);
      if (value.has_value()) page.Sample({{"job", facts.running[at].summary.name()}}, *value);
    }
  };
  using Value = std::optional<double>;
  using Job = ClusterFacts::Job;
  family("muster_job_ranks", "Ranks of a running job.",
         [](const Job& job, const Measured&) { return Value(job.summary.ranks()); });
  family("muster_job_attempts", "Attempts of a running job, the current one included.",
         [](const Job& job, const Measured&) { return Value(job.summary.attempts()); });
  family("muster_job_running_seconds", "How long a running job's current attempt has run.",
         [](const Job& job, const Measured&) { return Value(job.running_s); });
  family("muster_job_step", "The newest step that a running job has reported.",
         [](const Job& job, const Measured&) {
           const auto step = job.summary.step();
           return step < 0 ? Value() : Value(static_cast<double>(step));
         });
  family("muster_job_loss", "The newest loss that a running job has reported.",
         [](const Job& job, const Measured&) {
           return job.summary.has_loss() ? Value(job.summary.loss()) : Value();
         });
  family("muster_job_cpu_cores", "Processor cores that a running job's ranks keep busy.",
         [](const Job&, const Measured& sum) { return sum.any ? Value(sum.cpu_cores) : Value(); });
  family("muster_job_resident_bytes", "Resident memory of a running job's ranks.",
         [](const Job&, const Measured& sum) {
           return sum.any ? Value(sum.resident_bytes) : Value();
         });
  family("muster_job_device_utilization_ratio",
         "Mean utilization of a running job's devices, from 0 to 1.",
         [](const Job&, const Measured& sum) {
           if (sum.utilized_devices == 0) return Value();
           return Value(sum.utilization / static_cast<double>(sum.utilized_devices));
         });
  page.One("muster_job_series_left_out", Kind::kGauge,
           "Running jobs without their own series; only the newest ones have them.",
           static_cast<double>(facts.left_out));
}

void WriteCalls(const CallCounts& calls, Exposition& page) {
  page.Family("muster_calls_total", Kind::kCounter, "Calls of clients, by call and way in.");
  calls.ForEach([&](std::string_view call, std::string_view way, uint64_t count) {
    page.Sample({{"call", call}, {"way", way}}, static_cast<double>(count));
  });
}

void WriteDenials(const DenialCounts& denied, Exposition& page) {
  page.Family("muster_refused_total", Kind::kCounter,
              "Refused to workers because it does not belong to their node, by kind.");
  denied.ForEach([&](std::string_view what, uint64_t count) {
    page.Sample({{"what", what}}, static_cast<double>(count));
  });
}

void WriteCertificate(const Daemon& daemon, Exposition& page) {
  const Cluster::CertificateState certificate = daemon.access.cluster->Certificate();
  const int64_t left_ms = certificate.not_after_ms - daemon.process.clock.Read().wall_ms;
  page.One("muster_certificate_left_seconds", Kind::kGauge,
           "Until the coordinator's own certificate ends; negative: since then.",
           static_cast<double>(left_ms) / kMsPerS);
  page.One("muster_certificate_failed_renewals_total", Kind::kCounter,
           "Times that the coordinator's own certificate could not be renewed.",
           static_cast<double>(certificate.failed_renewals));
}

void WriteBuild(bool is_private, Exposition& page) {
  page.Family("muster_build_info", Kind::kInfo, "The coordinator's version.");
  page.Sample({{"version", common::kVersion},
               {"protocol", std::to_string(common::kProtocol)},
               {"private", is_private ? "true" : "false"}},
              1);
}

void WriteHead(const HeadFacts& head, Exposition& page) {
  page.One("muster_head_leads", Kind::kGauge,
           "1 while this coordinator leads the others, 0 while it stands by.", head.leads ? 1 : 0);
  page.Family("muster_head_position", Kind::kGauge,
              "Of the newest entry of the shared log that this coordinator has.");
  if (head.position.has_value()) page.Sample(static_cast<double>(*head.position));
}

void WriteHttp(const Server::Counts& http, const std::map<unsigned, uint64_t>& responses,
               Exposition& page) {
  page.One("muster_http_connections", Kind::kGauge, "HTTP connections that are open.",
           static_cast<double>(http.connections));
  page.One("muster_http_accepted_total", Kind::kCounter, "HTTP connections that were accepted.",
           static_cast<double>(http.accepted));
  page.One("muster_http_turned_away_total", Kind::kCounter,
           "HTTP connections that were closed or refused because there were too many.",
           static_cast<double>(http.turned_away));
  page.One("muster_http_timed_out_total", Kind::kCounter,
           "HTTP connections that were closed because the client was idle or slow.",
           static_cast<double>(http.timed_out));
  page.Family("muster_http_responses_total", Kind::kCounter, "HTTP responses, by status.");
  for (const auto& [status, count] : responses)
    page.Sample({{"status", std::to_string(status)}}, static_cast<double>(count));
}

void WriteProcess(const ProcessFacts& process, int64_t started_ms, Exposition& page) {
  page.One("process_start_time_seconds", Kind::kGauge, "When the process started, Unix time.",
           static_cast<double>(started_ms) / kMsPerS);
  page.One("process_cpu_seconds_total", Kind::kCounter, "Processor time of the process.",
           process.cpu_s);
  page.One("process_resident_memory_bytes", Kind::kGauge, "Resident memory of the process.",
           static_cast<double>(process.resident_bytes));
  page.One("process_open_fds", Kind::kGauge, "Open file descriptors.",
           static_cast<double>(process.open_fds));
  page.One("process_max_fds", Kind::kGauge, "Limit of open file descriptors.",
           static_cast<double>(process.max_fds));
  page.One("process_threads", Kind::kGauge, "Threads of the process.",
           static_cast<double>(process.threads));
}

void WriteOwn(const Daemon& daemon, const OwnFacts& own, Exposition& page) {
  WriteBuild(daemon.instance.is_private, page);
  if (const Leading* leading = daemon.instance.leading; leading != nullptr)
    WriteHead(FactsOfHead(leading->view(), leading->name, /*leads=*/true), page);
  page.One("muster_epoch", Kind::kGauge, "Grows at every start of the coordinator.",
           static_cast<double>(daemon.instance.epoch));
  page.One("muster_journal_pending_bytes", Kind::kGauge,
           "Events that are decided and not on disk yet.",
           static_cast<double>(own.journal_pending_bytes));
  page.One("muster_disk_bytes", Kind::kGauge, "Of the file system with the data directory.",
           static_cast<double>(daemon.instance.disk_bytes));
  page.One("muster_disk_free_bytes", Kind::kGauge, "Of those, how many the coordinator may use.",
           static_cast<double>(daemon.instance.disk_free_bytes));
  page.One("muster_log_streams_open", Kind::kGauge, "Ranks' output streams that have not ended.",
           static_cast<double>(daemon.stores.logs.UnendedStreams()));
  if (daemon.access.cluster != nullptr) WriteCertificate(daemon, page);
  WriteCalls(daemon.traffic.calls, page);
  WriteDenials(daemon.traffic.denied, page);
  WriteHttp(own.http, own.responses, page);
  WriteProcess(ReadProcess(), daemon.instance.started_ms, page);
}

Response PageOf(Exposition::Format format, Exposition page) {
  return {.content_type = std::string(ContentTypeOf(format)),
          .body = std::move(page).Finish(),
          .fields = {}};
}

uint64_t CountEntries(const char* path) {
  DIR* directory = opendir(path);
  if (directory == nullptr) return 0;
  uint64_t count = 0;
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(directory);
  return count;
}

}  // namespace

HeadFacts FactsOfHead(const HeadsView& view, std::string_view name, bool leads) {
  HeadFacts facts{.leads = leads, .position = std::nullopt};
  for (const v1::HeadRecord& head : view.heads) {
    if (head.name() == name) facts.position = head.position();
  }
  return facts;
}

ClusterFacts FactsOfCluster(const ClusterState& state, Now now) {
  ClusterFacts facts;
  for (int each = v1::JOB_STATE_QUEUED; each <= v1::JOB_STATE_RESTARTING; ++each)
    facts.jobs[absl::AsciiStrToLower(StateName(static_cast<v1::JobState>(each)))] = 0;
  for (auto at = state.jobs.rbegin(); at != state.jobs.rend(); ++at) {
    const v1::JobRecord& job = at->second;
    if (IsFinal(job.state())) continue;
    ++facts.jobs[absl::AsciiStrToLower(StateName(job.state()))];
    facts.held += job.held() ? 1 : 0;
    if (job.state() != v1::JOB_STATE_RUNNING) continue;
    if (facts.running.size() == kJobSeriesMax) {
      ++facts.left_out;
      continue;
    }
    facts.running.push_back(
        {.summary = Summarize(job),
         .running_s = static_cast<double>(RunningMs(state, job, now)) / kMsPerS});
  }
  facts.waiting = state.queue.size();
  for (const QueuePlace& place : state.queue) {
    const auto timers = state.timers.find(place.job);
    if (timers == state.timers.end()) continue;
    const double waited = SecondsBetween(timers->second.state_since_mono_ms, now.mono_ms);
    facts.oldest_waiting_s = std::max(facts.oldest_waiting_s, waited);
  }
  CountNodes(state, facts);
  facts.is_alarmed = MostNodesSilent(state);
  facts.job_numbers = state.next_job_id - 1;
  facts.events = state.next_seq - 1;
  return facts;
}

ProcessFacts ReadProcess() {
  ProcessFacts facts;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    facts.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  constexpr size_t kStatmBytesMax = 256;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const absl::StatusOr<std::string> statm = common::ReadFile("/proc/self/statm", kStatmBytesMax);
  if (statm.ok() && std::sscanf(statm->c_str(), "%llu %llu", &size, &resident) == 2)
    facts.resident_bytes = resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  facts.open_fds = CountEntries("/proc/self/fd");
  facts.threads = CountEntries("/proc/self/task");
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.max_fds = limit.rlim_cur;
  return facts;
}

Response StandbyMetrics(const StandbyFacts& facts, Exposition::Format format) {
  Exposition page(format);
  WriteBuild(/*is_private=*/false, page);
  WriteHead(facts.head, page);
  WriteHttp(facts.http, facts.responses, page);
  WriteProcess(ReadProcess(), facts.started_ms, page);
  return PageOf(format, std::move(page));
}

void AnswerMetrics(Daemon& daemon, OwnFacts own, Exposition::Format format, Respond respond) {
  daemon.jobs.loop.Ask([&daemon, own = std::move(own), format, respond = std::move(respond)](
                           const LoopView& view) -> std::function<void()> {
    auto facts = std::make_shared<ClusterFacts>(FactsOfCluster(view.state, view.now));
    // Does not wait until what it saw is durable: a scrape must work while the disk is full.
    daemon.process.pool.Post([&daemon, own, format, respond, facts] {
      for (ClusterFacts::Job& job : facts->running) daemon.stores.metrics.Decorate(job.summary);
      Exposition page(format);
      WriteOwn(daemon, own, page);
      WriteCluster(*facts, page);
      WriteJobs(*facts, daemon.stores.samples, page);
      respond(PageOf(format, std::move(page)));
    });
    return nullptr;
  });
}

}  // namespace muster::coordinator::http
