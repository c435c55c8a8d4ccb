// jobctl show and why.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/record_json.h"
#include "client/text/assessment_text.h"
#include "client/text/job_text.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kShowFlags[] = {
    {"ledger", 0, "", "where its device time went: queue, data, restarts, idle devices, …"},
    {"output", 'o', "FORMAT", "json, yaml or name instead of text", "json|yaml|name"},
};

absl::StatusOr<int> ShowJob(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(v1::GetJobResponse response, connection->GetJob(arguments.words()[0]));
  HideSecrets(response.mutable_record()->mutable_spec());
  const std::string output = arguments.Get("output");
  v1::Assessment assessment;
  if (output != "name") {
    absl::StatusOr<v1::Assessment> answer = connection->AssessJob(arguments.words()[0]);
    // The record is worth showing without it: an older coordinator does not judge.
    if (answer.ok()) assessment = *std::move(answer);
    if (!answer.ok() && arguments.Has("ledger")) return answer.status();
  }
  if (output == "json") {
    ASSIGN_OR_RETURN(const std::string text, RecordJson(response.record(), assessment));
    session.Print(text);
  } else if (output == "yaml") {
    ASSIGN_OR_RETURN(const std::string text, RecordYaml(response.record(), assessment));
    session.Print(text);
  } else if (output == "name") {
    session.Print(response.record().name() + "\n");
  } else if (arguments.Has("ledger")) {
    session.Print(StrCat(FindingHead(assessment, session.terminal()),
                         LedgerText(assessment.ledger(), session.terminal())));
  } else {
    session.Print(ShowJob(response, assessment, session.terminal()));
  }
  return kExitOk;
}

constexpr Flag kWhyFlags[] = {kRecordOutputFlag};

absl::StatusOr<int> Why(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::WhyResponse response, connection->WhyJob(arguments.words()[0]));
  if (arguments.Has("output")) {
    const std::vector<std::string> details(response.details().begin(), response.details().end());
    RecordFields fields;
    fields.Add("state", StateName(response.state())).Add("text", response.text());
    fields.AddTexts("details", details);
    ASSIGN_OR_RETURN(const std::string text,
                     RecordText("JobReason", fields, arguments.Get("output")));
    session.Print(text);
    return kExitOk;
  }
  // The coordinator's sentence starts with the state if it is about the state alone.
  const std::string state = StateName(response.state());
  const std::string text = common::Printable(response.text());
  session.Print(StrCat(text.starts_with(state) ? "" : state + ": ", text, "\n"));
  for (const std::string& detail : response.details()) {
    session.Print(StrCat("  ", common::Printable(detail), "\n"));
  }
  // What keeps a running job from its next step, e.g. a rank that has not joined the others.
  if (response.state() != v1::JOB_STATE_RUNNING) return kExitOk;
  if (const auto assessment = connection->AssessJob(arguments.words()[0]); assessment.ok()) {
    session.Print(FindingLines(*assessment, session.terminal()));
  }
  return kExitOk;
}

}  // namespace

const Command kShowCommand = {.name = "show",
                              .place = 70,
                              .summary = "show everything about one job",
                              .arguments = "JOB",
                              .least = 1,
                              .most = 1,
                              .flags = kShowFlags,
                              .completes = "job",
                              .examples =
                                  "jobctl show @last\tyour newest job\n"
                                  "jobctl show @last --ledger\twhere its device time went\n"
                                  "jobctl show calm-otter-3 -o json\tthe whole record",
                              .run = ShowJob};

const Command kWhyCommand = {
    .name = "why",
    .place = 80,
    .summary = "explain a job's state: what it is waiting for, or how it ended",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kWhyFlags,
    .completes = "job",
    .examples = "jobctl why calm-otter-3\twhat it is waiting for",
    .run = Why};

}  // namespace muster::client
