// jobctl simulate.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"
#include "replay/replay.h"

namespace muster::client {
namespace {

using common::StrCat;
using replay::TracedJob;

constexpr uint64_t kTraceBytesMax = uint64_t{256} << 20;
constexpr int64_t kNodesMax = 100'000;

constexpr Flag kSimulateFlags[] = {
    {"trace", 0, "FILE", "jobs from this CSV file, not the cluster's finished ones", {}, "file"},
    {"nodes", 0, "NxD", "N nodes with D devices each, not the cluster's"},
    {"add-nodes", 0, "N", "so many more, as large as the largest"},
    {"kind", 0, "KIND", "of the cluster's devices and jobs (default: what most of them are)"},
    {"quota", 0, "PROJECT=N", "devices of a project, not the cluster's quotas (repeatable)"},
    {"no-quotas", 0, "", "as if no project had one"},
    {"estimates", 0, "WHICH", "what the scheduler is told: none, given or true (given)",
     "none|given|true"},
};

struct Setting {
  std::vector<uint32_t> nodes;
  std::map<std::string, uint32_t> quotas;
  std::vector<TracedJob> jobs;
  std::vector<double> waited_h;  // as it was; empty: of a trace
};

// "80x8".
absl::StatusOr<std::vector<uint32_t>> ParseNodes(const std::string& text) {
  const size_t times = text.find('x');
  int64_t nodes = 0;
  uint32_t devices = 0;
  if (times == std::string::npos || !absl::SimpleAtoi(text.substr(0, times), &nodes) ||
      !absl::SimpleAtoi(text.substr(times + 1), &devices) || nodes < 1 || nodes > kNodesMax ||
      devices < 1 || devices > 1'024) {
    return Usage("JC1004",
                 StrCat("--nodes takes nodes x devices, such as 80x8, not \"", text, "\""),
                 "jobctl simulate --trace jobs.csv --nodes 80x8");
  }
  return std::vector<uint32_t>(static_cast<size_t>(nodes), devices);
}

absl::StatusOr<replay::Estimates> ParseEstimates(const std::string& text) {
  if (text == "none") return replay::Estimates::kNone;
  if (text == "true") return replay::Estimates::kTrue;
  if (text.empty() || text == "given") return replay::Estimates::kGiven;
  return Usage("JC1004", StrCat("--estimates must be none, given or true, not \"", text, "\""),
               "jobctl simulate --estimates none");
}

// What most of the cluster's devices are.
std::string UsualKind(const v1::ListNodesResponse& nodes) {
  std::map<std::string, size_t> counts;
  for (const v1::NodeView& node : nodes.nodes()) {
    for (const v1::Device& device : node.record().facts().devices()) ++counts[device.kind()];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? "" : most->first;
}

absl::Status ReadNodes(Connection& connection, std::string& kind, Setting& setting) {
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection.ListNodes());
  if (kind.empty()) kind = UsualKind(nodes);
  for (const v1::NodeView& node : nodes.nodes()) {
    const auto& devices = node.record().facts().devices();
    const auto count = static_cast<uint32_t>(
        std::count_if(devices.begin(), devices.end(),
                      [&](const v1::Device& device) { return device.kind() == kind; }));
    if (count > 0) setting.nodes.push_back(count);
  }
  return absl::OkStatus();
}

absl::Status ReadQuotas(Connection& connection, const std::string& kind, Setting& setting) {
  v1::ListProjectsRequest request;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListProjectsResponse page, connection.ListProjects(request));
    for (const v1::Project& project : page.projects()) {
      const auto quota = project.quota().find(kind);
      if (quota != project.quota().end()) setting.quotas[project.name()] = quota->second;
    }
    if (!page.more() || page.projects().empty()) return absl::OkStatus();
    request.set_after(page.projects().rbegin()->name());
  }
}

// Finished jobs that have run on the kind. What an attempt repeated counts as part of its time.
absl::Status ReadJobs(Connection& connection, const std::string& kind, Setting& setting) {
  v1::ListJobsRequest request;
  request.set_all(true);
  request.set_limit(1'000);
  for (const v1::JobState state :
       {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED}) {
    request.add_states(state);
  }
  std::vector<v1::JobSummary> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse page, connection.ListJobs(request));
    for (const v1::JobSummary& job : page.jobs()) {
      if (job.device_kind() == kind && job.ran_ms() > 0) jobs.push_back(job);
    }
    if (!page.more() || page.jobs().empty() || jobs.size() > replay::kTracedJobsMax) break;
    request.set_before_id(page.jobs().rbegin()->id());
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return std::pair(a.submitted_ms(), a.id()) < std::pair(b.submitted_ms(), b.id());
  });
  for (const v1::JobSummary& job : jobs) {
    setting.jobs.push_back({.submit_ms = job.submitted_ms() - jobs.front().submitted_ms(),
                            .duration_ms = std::max<int64_t>(1'000, job.ran_ms()),
                            .devices = std::max(1u, job.ranks()),
                            .priority = job.priority(),
                            .project = job.project()});
    const int64_t waited_ms = job.finished_ms() - job.submitted_ms() - job.ran_ms();
    setting.waited_h.push_back(static_cast<double>(std::max<int64_t>(0, waited_ms)) / 3'600'000);
  }
  return absl::OkStatus();
}

absl::Status ReadQuotaFlags(const Arguments& arguments, Setting& setting) {
  const std::vector<std::string> quotas = arguments.All("quota");
  if (!quotas.empty() || arguments.Has("no-quotas")) setting.quotas.clear();
  for (const std::string& text : quotas) {
    const size_t equals = text.find('=');
    uint32_t count = 0;
    if (equals == std::string::npos || equals == 0 ||
        !absl::SimpleAtoi(text.substr(equals + 1), &count)) {
      return Usage("JC1004", StrCat("\"", text, "\" is not PROJECT=N"),
                   "jobctl simulate --quota vision=48");
    }
    setting.quotas[text.substr(0, equals)] = count;
  }
  return absl::OkStatus();
}

absl::StatusOr<Setting> SettingOf(Session& session, const Arguments& arguments) {
  Setting setting;
  if (arguments.Has("nodes")) {
    ASSIGN_OR_RETURN(setting.nodes, ParseNodes(arguments.Get("nodes")));
  }
  std::string kind = arguments.Get("kind");
  if (!arguments.Has("trace") || !arguments.Has("nodes")) {
    ASSIGN_OR_RETURN(Connection * connection, session.Connect());
    if (!arguments.Has("nodes")) RETURN_IF_ERROR(ReadNodes(*connection, kind, setting));
    if (!arguments.Has("trace")) RETURN_IF_ERROR(ReadJobs(*connection, kind, setting));
    if (!arguments.Has("trace")) RETURN_IF_ERROR(ReadQuotas(*connection, kind, setting));
  }
  if (arguments.Has("trace")) {
    ASSIGN_OR_RETURN(const replay::Estimates estimates, ParseEstimates(arguments.Get("estimates")));
    ASSIGN_OR_RETURN(const std::string csv,
                     common::ReadFile(arguments.Get("trace"), kTraceBytesMax));
    ASSIGN_OR_RETURN(setting.jobs, replay::ParseTrace(csv, estimates));
  }
  RETURN_IF_ERROR(ReadQuotaFlags(arguments, setting));
  ASSIGN_OR_RETURN(const int64_t more, arguments.Number("add-nodes", 0, kNodesMax, 0));
  if (setting.nodes.empty())
    return Usage("JC1004", "there are no nodes with such devices", "jobctl simulate --nodes 80x8");
  const uint32_t largest = *std::max_element(setting.nodes.begin(), setting.nodes.end());
  setting.nodes.insert(setting.nodes.end(), static_cast<size_t>(more), largest);
  if (setting.jobs.empty())
    return Usage("JC1004", "there are no jobs to simulate", "jobctl simulate --trace jobs.csv");
  return setting;
}

Cell WaitHours(double hours) { return Cell(Value(hours), absl::StrFormat("%.2f", hours)); }

std::vector<Cell> RulesRow(const std::string& rules, const replay::Waits& waits) {
  return {Cell(rules), WaitHours(waits.mean_h), WaitHours(waits.p95_h), WaitHours(waits.max_h),
          WaitHours(waits.mean_large_h)};
}

std::vector<std::pair<std::string, replay::Rules>> RulesFor(const Setting& setting) {
  std::vector<std::pair<std::string, replay::Rules>> rules = {
      {"strict order", {.backfill = false, .min_run_ms = std::nullopt}},
      {"places held", {.min_run_ms = std::nullopt}}};
  if (setting.quotas.empty()) return rules;
  rules.push_back({"quotas", {.min_run_ms = std::nullopt, .quotas = setting.quotas}});
  rules.push_back({"quotas, giving way", {.quotas = setting.quotas}});
  return rules;
}

absl::StatusOr<int> Simulate(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Setting setting, SettingOf(session, arguments));
  uint64_t devices = 0;
  for (const uint32_t each : setting.nodes) devices += each;
  session.Note(StrCat(common::Counted(setting.jobs.size(), "job"), " on ",
                      common::Counted(setting.nodes.size(), "node"), " with ",
                      common::Counted(devices, "device"), "; waits in hours"));
  Listing listing;
  listing.kind = "SimulationList";
  listing.columns = {{.key = "rules"},
                     {.key = "mean", .right = true, .value_name = "mean_wait_hours"},
                     {.key = "p95", .right = true, .value_name = "p95_wait_hours"},
                     {.key = "longest", .right = true, .value_name = "longest_wait_hours"},
                     {.key = "mean_8+", .right = true, .value_name = "mean_wait_8_hours"},
                     {.key = "use", .right = true},
                     {.key = "gave_way", .right = true},
                     {.key = "never_fit", .wide = true, .right = true}};
  if (!setting.waited_h.empty()) {
    std::vector<Cell> row = RulesRow("as it was", replay::WaitsOf(setting.jobs, setting.waited_h));
    row.insert(row.end(), 3, Cell());
    listing.rows.push_back(std::move(row));
  }
  for (const auto& [name, rules] : RulesFor(setting)) {
    replay::Cluster cluster(setting.nodes, rules);
    ASSIGN_OR_RETURN(const replay::Outcome outcome, replay::Replay(setting.jobs, cluster));
    std::vector<Cell> row = RulesRow(name, outcome.waits);
    row.push_back(Cell(Value(outcome.use), absl::StrFormat("%.0f%%", outcome.use * 100)));
    row.push_back(Cell(static_cast<int64_t>(outcome.gave_way)));
    row.push_back(Cell(static_cast<int64_t>(outcome.jobs - outcome.ended)));
    listing.rows.push_back(std::move(row));
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

}  // namespace

const Command kSimulateCommand = {
    .name = "simulate",
    .place = 568,
    .summary = "how long jobs would wait with other nodes, quotas or rules",
    .flags = kSimulateFlags,
    .listing = true,
    .examples =
        "jobctl simulate --add-nodes 4\tthe cluster's finished jobs, with four nodes more\n"
        "jobctl simulate --quota vision=48 --quota speech=16\twith other quotas\n"
        "jobctl simulate --trace jobs.csv --nodes 80x8\tof another cluster; needs no coordinator",
    .notes =
        "Runs the scheduler of this release over the jobs, on this machine; about a\n"
        "millisecond per job and row. Each job can save at any time, giving way costs\n"
        "2 min, a borrowed job runs for 30 min at least, and jobs larger than a node take\n"
        "whole nodes. A trace has the columns submit_s, duration_s and devices, and\n"
        "perhaps project, priority, estimate_s. The cluster's own jobs have no estimates\n"
        "here, and one rank counts as one device.",
    .run = Simulate};

}  // namespace muster::client
