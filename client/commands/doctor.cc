// jobctl doctor: what is wrong with this machine, or with the nodes of a cluster, and the fix.
#include "client/doctor/checks.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <map>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/doctor/cluster.h"
#include "client/doctor/coordinators.h"
#include "client/doctor/machine.h"
#include "client/doctor/rehearsal.h"
#include "client/session/private_coordinator.h"
#include "client/session/session.h"
#include "client/session/spec_environment.h"
#include "client/terminal/listing.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;
using doctor::Grade;
using doctor::Verdict;

constexpr Flag kDoctorFlags[] = {
    {"cluster", 0, "", "check coordinators and nodes instead of this machine"},
    {"output", 'o', "FORMAT", "json, jsonl, yaml, csv: for programs", "json|jsonl|yaml|csv"},
};

constexpr int64_t kAnswersWithinMs = 3'000;
// limit: jobctl: coordinators that `doctor --cluster` asks whether they answer; others are not judged by it
constexpr size_t kAskedMost = 64;

struct Finding {
  std::string thing;
  Verdict verdict;
};

struct GradeWords {
  std::string_view mark;
  std::string_view color;
  std::string_view name;
};
const GradeWords& WordsOf(Grade grade) {
  static constexpr GradeWords kWords[] = {
      {"✓", "\033[32m", "good"}, {"!", "\033[33m", "warning"}, {"✗", "\033[1;31m", "broken"}};
  return kWords[static_cast<size_t>(grade)];
}

std::vector<Finding> ExamineMachine(Session& session) {
  doctor::MachineFacts facts;
  facts.devices = doctor::ReadDevices("", Variable("PATH"));
  facts.python = doctor::ReadPython(Variable("PATH"));
  facts.network = doctor::ReadNetwork();
  facts.clock = doctor::ReadClock();
  facts.data_disk = doctor::ReadDisk(session.private_coordinator().data_dir());
  facts.temp_disk = doctor::ReadDisk(Variable("TMPDIR").empty() ? "/tmp" : Variable("TMPDIR"));
  facts.shared_memory = doctor::ReadDisk("/dev/shm");
  facts.limits = doctor::ReadLimits();
  facts.memory = doctor::ReadMemory("");
  facts.programs = doctor::ReadPrograms();
  facts.coordinator = doctor::ReadCoordinator(session);
  facts.all_reduce = doctor::RehearseAllReduce(session);
  std::vector<Finding> findings;
  for (const doctor::Check& check : doctor::Checks())
    findings.push_back({std::string(check.thing), check.judge(facts)});
  return findings;
}

// Why those do not answer from here that do not, by name. All are asked at once.
std::map<std::string, std::string> AskAll(const Connection& connection,
                                          const v1::ListCoordinatorsResponse& list) {
  std::map<std::string, std::future<absl::Status>> asked;
  for (const v1::CoordinatorView& each : list.coordinators()) {
    if (asked.size() == kAskedMost) break;
    asked[each.name()] = std::async(std::launch::async, [&connection, at = each.endpoint()] {
      return connection.AskAt(at, kAnswersWithinMs).status();
    });
  }
  std::map<std::string, std::string> silent;
  for (auto& [name, answer] : asked) {
    const absl::Status status = answer.get();
    if (status.ok()) continue;
    const std::string why = common::ProblemOf(status).why;
    silent[name] = why.empty() ? std::string(status.message()) : why;
  }
  return silent;
}

// False: none leads that could tell about nodes.
absl::StatusOr<bool> ExamineCoordinators(Session& session, std::vector<Finding>& findings) {
  ASSIGN_OR_RETURN(Connection * connection, session.ConnectToAny());
  const auto list = connection->ListCoordinators(v1::ListCoordinatorsRequest());
  if (absl::IsUnimplemented(list.status())) return true;  // an older one, which is alone
  RETURN_IF_ERROR(list.status());
  const auto silent =
      list->alone() ? std::map<std::string, std::string>() : AskAll(*connection, *list);
  const int64_t now_ms = common::SystemClock().Read().wall_ms;
  for (doctor::NodeVerdict& each : doctor::JudgeCoordinators(*list, silent, now_ms))
    findings.push_back({std::move(each.node), std::move(each.verdict)});
  if (!connection->server().stands_by()) return true;
  // What follows is for the one that leads.
  session.Disconnect();
  return std::any_of(list->coordinators().begin(), list->coordinators().end(),
                     [](const auto& each) { return each.leads(); });
}

absl::StatusOr<std::vector<Finding>> ExamineCluster(Session& session) {
  std::vector<Finding> findings;
  ASSIGN_OR_RETURN(const bool one_leads, ExamineCoordinators(session, findings));
  if (!one_leads) return findings;
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection->ListNodes());
  for (doctor::NodeVerdict& each : doctor::JudgeCluster(connection->server(), nodes))
    findings.push_back({std::move(each.node), std::move(each.verdict)});
  return findings;
}

// A line for each finding, followed by the fix if it is not good.
std::string LinesOf(const std::vector<Finding>& findings, bool color) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, DisplayWidth(finding.thing));
  std::string text;
  for (const Finding& finding : findings) {
    const GradeWords& words = WordsOf(finding.verdict.grade);
    const std::string thing = common::Printable(finding.thing);
    common::StrAppend(&text, color ? words.color : "", words.mark, color ? "\033[0m" : "", " ",
                      thing, std::string(width + 2 - std::min(width, DisplayWidth(thing)), ' '),
                      common::Printable(finding.verdict.value), "\n");
    if (finding.verdict.fix.empty()) continue;
    common::StrAppend(&text, "    fix: ", common::Printable(finding.verdict.fix), "\n");
  }
  return text;
}

absl::StatusOr<std::string> ForPrograms(const std::vector<Finding>& findings,
                                        const std::string& format, const Terminal& terminal) {
  Listing listing;
  listing.kind = "FindingList";
  listing.columns = {{.key = "check"}, {.key = "grade"}, {.key = "value"}, {.key = "fix"}};
  for (const Finding& finding : findings) {
    listing.rows.push_back({Cell(finding.thing),
                            Cell(std::string(WordsOf(finding.verdict.grade).name)),
                            Cell(finding.verdict.value), Cell(finding.verdict.fix)});
  }
  ListingOptions options;
  options.output = format;
  return RenderListing(std::move(listing), options, terminal);
}

absl::StatusOr<int> Examine(Session& session, const Arguments& arguments) {
  std::vector<Finding> findings;
  if (arguments.Has("cluster")) {
    ASSIGN_OR_RETURN(findings, ExamineCluster(session));
  } else {
    findings = ExamineMachine(session);
  }
  if (arguments.Has("output")) {
    ASSIGN_OR_RETURN(const std::string text,
                     ForPrograms(findings, arguments.Get("output"), session.terminal()));
    session.Print(text);
  } else {
    session.Print(LinesOf(findings, session.terminal().color_out));
  }
  const bool broken = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict.grade == Grade::kBroken;
  });
  return broken ? kExitFailed : kExitOk;
}

absl::StatusOr<int> AllReduceRank(Session&, const Arguments&) { return doctor::RunAllReduceRank(); }

}  // namespace

const Command kDoctorCommand = {
    .name = "doctor",
    .place = 390,
    .summary = "check this machine or a cluster: what is wrong, and its fix",
    .flags = kDoctorFlags,
    .examples =
        "jobctl doctor\tdriver, toolkit, torch, ports, clock, disks, limits, a tiny job\n"
        "jobctl doctor --cluster\tthe coordinators and nodes, clocks and disks, from what they "
        "report",
    .notes =
        "Returns 0 if nothing is broken (! is only a warning), 1 otherwise. The tiny job\n"
        "is two ranks that add up an array, on a private coordinator that is gone\n"
        "afterwards: neither your jobs nor a cluster see it.",
    .run = Examine};

// Hidden: the program of the tiny job's ranks.
const Command kAllReduceCommand = {.name = "__all_reduce",
                                   .place = 400,
                                   .summary = "a rank of doctor's tiny job",
                                   .run = AllReduceRank};

}  // namespace muster::client
