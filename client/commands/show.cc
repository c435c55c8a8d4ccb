// jobctl show and why.
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/job_text.h"
#include "client/record_text.h"
#include "client/session.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

constexpr Flag kShowFlags[] = {
    {"output", 'o', "FORMAT", "json, yaml or name instead of text", "json|yaml|name"},
};

absl::StatusOr<int> ShowJob(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(v1::GetJobResponse response, connection->GetJob(arguments.words()[0]));
  HideSecrets(response.mutable_record()->mutable_spec());
  const std::string output = arguments.Get("output");
  if (output == "json") {
    ASSIGN_OR_RETURN(const std::string text, MessageJson(response.record()));
    session.Print(text);
  } else if (output == "yaml") {
    ASSIGN_OR_RETURN(const std::string text, MessageYaml(response.record()));
    session.Print(text);
  } else if (output == "name") {
    session.Print(response.record().name() + "\n");
  } else {
    session.Print(ShowJob(response, session.terminal()));
  }
  return kExitOk;
}

absl::StatusOr<int> Why(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::WhyResponse response, connection->WhyJob(arguments.words()[0]));
  // The coordinator's sentence starts with the state if it is about the state alone.
  const std::string state = StateName(response.state());
  const std::string text = common::Printable(response.text());
  session.Print(common::StrCat(text.starts_with(state) ? "" : state + ": ", text, "\n"));
  for (const std::string& detail : response.details()) {
    session.Print(common::StrCat("  ", common::Printable(detail), "\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kShowCommand = {.name = "show",
                              .summary = "show everything about one job",
                              .arguments = "JOB",
                              .least = 1,
                              .most = 1,
                              .flags = kShowFlags,
                              .completes = "job",
                              .examples =
                                  "jobctl show @last\tyour newest job\n"
                                  "jobctl show calm-otter-3 -o json\tthe whole record",
                              .run = ShowJob};

const Command kWhyCommand = {
    .name = "why",
    .summary = "explain a job's state: what it is waiting for, or how it ended",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .completes = "job",
    .examples = "jobctl why calm-otter-3\twhat it is waiting for",
    .run = Why};

}  // namespace muster::client
