// jobctl compare.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/compare/configuration.h"
#include "client/compare/junit.h"
#include "client/compare/read_run.h"
#include "client/compare/report.h"
#include "client/connection/connection.h"
#include "client/machine/output_file.h"
#include "client/session/session.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "compare/comparison.h"
#include "compare/run.h"

namespace muster::client {
namespace {

using common::StrCat;
using compare::By;
using compare::ComparedRun;
using compare::Comparison;
using compare::ComparisonSetup;
using compare::Limit;
using compare::PointBudget;
using compare::WantedMetrics;

// limit: jobctl: points of one comparison; refused
constexpr size_t kPointsMax = 20'000'000;  // 320 MB

constexpr Flag kCompareFlags[] = {
    {"key", 0, "NAMES",
     "metrics, separated by commas; * and ? match; may be repeated (the runs' loss)"},
    {"by", 0, "UNIT", "compare the means of epochs, or step by step (epoch if known)",
     "epoch|step"},
    {"steps-per-epoch", 0, "N", "how many steps an epoch has (default: from the metric \"epoch\")"},
    {"rtol", 0, "R", "relative limit: 0.02 or 2%"},
    {"atol", 0, "A", "absolute limit"},
    {"baseline", 0, "RUN", "what the others are compared with (the first)", {}, "job"},
    {"rank", 0, "N", "this rank's metrics (of each metric, the lowest rank that logged it)"},
    {"junit", 0, "FILE", "write the result as JUnit XML", {}, "file"},
    {"output", 'o', "FORMAT", "table, json, jsonl or csv", "table|json|jsonl|csv"},
};

struct CompareRequest {
  std::vector<std::string> runs;  // the baseline first
  WantedMetrics wanted;
  ComparisonSetup setup;
  bool by_given = false;
};

// The runs to compare, and the job of each; a file has none.
struct Runs {
  std::vector<ComparedRun> runs;
  std::vector<std::optional<v1::JobRecord>> jobs;
};

absl::StatusOr<double> ToleranceOf(const Arguments& arguments, std::string_view flag) {
  if (!arguments.Has(flag)) return 0.0;
  const std::string text = arguments.Get(flag);
  const absl::StatusOr<double> value = compare::ParseTolerance(text);
  if (value.ok()) return value;
  return Usage("JC1004", StrCat("--", flag, " takes a number of at least 0, not \"", text, "\""),
               flag == "rtol" ? "--rtol 0.02 or --rtol 2%" : "--atol 1e-6");
}

absl::StatusOr<CompareRequest> CompareRequestOf(const Arguments& arguments) {
  CompareRequest request;
  request.runs = arguments.words();
  if (arguments.Has("baseline")) {
    const std::string baseline = arguments.Get("baseline");
    std::erase(request.runs, baseline);
    request.runs.insert(request.runs.begin(), baseline);
  }
  if (request.runs.size() < 2) {
    return Usage("JC1004", "there is only one run to compare", "jobctl compare A B");
  }
  request.wanted.keys = arguments.Listed("key");
  ASSIGN_OR_RETURN(request.wanted.rank, arguments.Number("rank", 0, INT32_MAX, -1));
  ASSIGN_OR_RETURN(request.setup.steps_per_epoch,
                   arguments.Number("steps-per-epoch", 1, INT64_MAX, 0));
  Limit& limit = request.setup.limit;
  limit.given = arguments.Has("rtol") || arguments.Has("atol");
  ASSIGN_OR_RETURN(limit.rtol, ToleranceOf(arguments, "rtol"));
  ASSIGN_OR_RETURN(limit.atol, ToleranceOf(arguments, "atol"));
  if (arguments.Has("junit") && !limit.given) {
    return Usage("JC1004", "--junit needs a limit to pass or fail", "add --rtol R or --atol A");
  }
  request.by_given = arguments.Has("by");
  request.setup.by = arguments.Get("by") == "step" ? By::kStep : By::kEpoch;
  return request;
}

absl::Status ReadRun(Session& session, const std::string& word, const WantedMetrics& wanted,
                     PointBudget* budget, Runs* into) {
  into->jobs.emplace_back();
  if (IsPathOfRun(word)) {
    ASSIGN_OR_RETURN(into->runs.emplace_back(), word.ends_with(".csv")
                                                    ? ReadCsvRun(word, wanted, budget)
                                                    : ReadEventRun(word, wanted, budget));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  v1::JobRecord& job = into->jobs.back().emplace();
  ASSIGN_OR_RETURN(into->runs.emplace_back(), ReadJobRun(*connection, word, wanted, budget, &job));
  if (!IsOver(job.state())) {
    session.Note(StrCat(job.name(), " is ", StateName(job.state()),
                        ": comparing what it has logged so far"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Runs> ReadRuns(Session& session, const CompareRequest& request) {
  Runs runs;
  PointBudget budget(kPointsMax, "compare fewer metrics at once (--key), or fewer runs");
  for (const std::string& word : request.runs) {
    RETURN_IF_ERROR(ReadRun(session, word, request.wanted, &budget, &runs));
  }
  return runs;
}

// Each run's configuration against the baseline's, where both are jobs.
absl::StatusOr<std::vector<RunDifference>> Configurations(Session& session, const Runs& runs) {
  std::vector<RunDifference> differences;
  if (!runs.jobs[0]) return differences;
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection->ListNodes());
  const Configuration baseline = ConfigurationOf(*runs.jobs[0], nodes);
  for (size_t i = 1; i < runs.jobs.size(); ++i) {
    if (!runs.jobs[i]) continue;
    differences.push_back(
        {runs.runs[i].name, DifferencesOf(baseline, ConfigurationOf(*runs.jobs[i], nodes))});
  }
  return differences;
}

absl::StatusOr<std::vector<Comparison>> CompareAll(Session& session,
                                                   const std::vector<ComparedRun>& runs,
                                                   CompareRequest* request) {
  std::vector<std::string> left_out;
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   compare::KeysOf(request->wanted.keys, runs, &left_out));
  for (const std::string& key : left_out) {
    session.Note(StrCat("left out because not every run has it: ", common::Printable(key)));
  }
  ComparisonSetup& setup = request->setup;
  if (!request->by_given) setup.by = compare::DefaultBy(keys, runs, setup.steps_per_epoch);
  std::vector<Comparison> comparisons;
  for (const std::string& key : keys) {
    for (size_t i = 1; i < runs.size(); ++i) {
      ASSIGN_OR_RETURN(Comparison pair, compare::CompareRuns(key, runs[0], runs[i], setup));
      comparisons.push_back(std::move(pair));
    }
  }
  return comparisons;
}

// Overwrites an earlier report, but no other file.
absl::Status WriteJUnit(const std::string& path, std::string_view report) {
  bool is_ours = false;
  if (common::Exists(path)) {
    const absl::StatusOr<std::string> old = common::ReadFile(path);
    is_ours = old.ok() && old->starts_with(kJUnitHead);
  }
  absl::StatusOr<OutputFile> file = OutputFile::Create(path, is_ours);
  if (absl::IsAlreadyExists(file.status())) {
    return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                               {.code = "JC1545",
                                .what = StrCat(path, " exists and is not an earlier report"),
                                .fix = "name another --junit FILE, or remove it"});
  }
  RETURN_IF_ERROR(file.status());
  RETURN_IF_ERROR(file->Write(report));
  return file->Commit();
}

absl::StatusOr<int> PrintComparisons(Session& session, const Arguments& arguments, const Runs& runs,
                                     CompareRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<Comparison> comparisons,
                   CompareAll(session, runs.runs, request));
  ASSIGN_OR_RETURN(const std::vector<RunDifference> configurations, Configurations(session, runs));
  ComparisonReport report({.format = arguments.Get("output", "table"),
                           .terminal = session.terminal(),
                           .print = [&session](std::string_view text) { session.Print(text); },
                           .note = [&session](const std::string& line) { session.Note(line); }},
                          request->setup);
  RETURN_IF_ERROR(report.Print(comparisons, configurations));
  if (arguments.Has("junit")) {
    RETURN_IF_ERROR(WriteJUnit(arguments.Get("junit"), JUnitReport(comparisons, request->setup)));
  }
  if (!request->setup.limit.given) {
    session.Note(
        "no limit is set, so only NaN and infinity fail; set one with --rtol R or --atol A");
  }
  const bool passes = std::all_of(comparisons.begin(), comparisons.end(),
                                  [](const Comparison& pair) { return pair.differences.passes(); });
  return passes ? kExitOk : kExitFailed;
}

absl::StatusOr<int> CompareCommand(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(CompareRequest request, CompareRequestOf(arguments));
  const absl::StatusOr<Runs> runs = ReadRuns(session, request);
  absl::StatusOr<int> code =
      runs.ok() ? PrintComparisons(session, arguments, *runs, &request) : runs.status();
  // CI must find neither a stale report nor a missing one.
  if (!code.ok() && arguments.Has("junit")) {
    const absl::Status written =
        WriteJUnit(arguments.Get("junit"), JUnitError(Sentence(code.status())));
    if (!written.ok() && common::CodeOf(code.status()) != "JC1545") {
      session.Note(Sentence(written));
    }
  }
  return code;
}

}  // namespace

const Command kCompareCommand = {
    .name = "compare",
    .place = 120,
    .summary = "compare the metrics of runs, as a gate: exit 1 past a limit",
    .arguments = "RUN RUN…",
    .least = 1,
    .most = -1,
    .flags = kCompareFlags,
    .completes = "job",
    .examples =
        "jobctl compare calm-otter-3 red-fox-4\tthe loss, by epoch or step\n"
        "jobctl compare calm-otter-3 @last --key loss,accuracy --rtol 0.0483%\ta gate\n"
        "jobctl compare ./runs/old @last --key 'train/*' --atol 1e-6\tagainst event files\n"
        "jobctl compare loss.csv @last --by step --rtol 2% --junit compare.xml\tfor CI",
    .notes =
        "A RUN is a job (number, name, prefix, @last); a TensorBoard event file or a\n"
        "directory with event files; or a CSV file with the columns step,loss,… or\n"
        "step,name,value. A word that has a slash, ends with .csv or contains tfevents\n"
        "is a path.\n\n"
        "By step, the values of common steps are compared; by epoch, the means of the\n"
        "values in each epoch. Epochs come from --steps-per-epoch N (steps 1 to N are\n"
        "epoch 1) or a metric \"epoch\" that the trainer logs at the same steps. If a\n"
        "run was restarted, the newest attempt's value of a step counts.\n\n"
        "abs is |value - baseline|, rel is abs / |baseline|. A row is past the limit\n"
        "unless abs <= atol + rtol * |baseline|, as in numpy.isclose; NaN and infinity\n"
        "are always past it. With a baseline of 0 only atol counts.\n\n"
        "Exit code: 0 within the limit, 1 past it or nothing in common, 2 usage, 3 not\n"
        "found.",
    .run = CompareCommand};

}  // namespace muster::client
