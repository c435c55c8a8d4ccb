// jobctl diff.
#include "client/code/code_difference.h"
#include "client/code/code_fetch.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/compare/configuration.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/text_diff.h"
#include "client/text/code_text.h"
#include "common/base/status.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr uint64_t kComparedBytesMax = 64 * 1024;

constexpr Flag kDiffFlags[] = {
    {"code", 0, "", "the lines that differ in text files of up to 64 KiB"},
    {"output", 'o', "FORMAT", "json instead of text", "json"},
};

// Two lines for a field that both have, one for a field that only one has.
std::string UnifiedText(const std::vector<ConfigurationDifference>& differences,
                        const Terminal& terminal) {
  const std::string_view red = terminal.color_out ? "\033[31m" : "";
  const std::string_view green = terminal.color_out ? "\033[32m" : "";
  const std::string_view reset = terminal.color_out ? "\033[0m" : "";
  std::string text;
  for (const ConfigurationDifference& each : differences) {
    const std::string field = common::Printable(each.field);
    if (each.a) {
      StrAppend(&text, red, "-", field, ": ", common::Printable(*each.a), reset, "\n");
    }
    if (each.b) {
      StrAppend(&text, green, "+", field, ": ", common::Printable(*each.b), reset, "\n");
    }
  }
  return text;
}

// What the manifests of two jobs' code tell.
struct CodeComparison {
  tree::Manifest a, b;
  std::vector<FileDifference> files;
  bool is_known = false;  // both have code, and it could be read
};

absl::StatusOr<CodeComparison> CompareCode(Connection& connection, const v1::JobRecord& a,
                                           const v1::JobRecord& b) {
  CodeComparison comparison;
  ASSIGN_OR_RETURN(comparison.a, CodeFetch(connection, a).Manifest());
  ASSIGN_OR_RETURN(comparison.b, CodeFetch(connection, b).Manifest());
  comparison.is_known = true;
  return comparison;
}

// Without it the configurations are still worth showing.
CodeComparison CompareCodeIfAny(Session& session, Connection& connection, const v1::JobRecord& a,
                                const v1::JobRecord& b) {
  const v1::JobSpec &in_a = a.spec(), &in_b = b.spec();
  if (!in_a.has_code() || !in_b.has_code() || in_a.code().tree() == in_b.code().tree()) return {};
  absl::StatusOr<CodeComparison> compared = CompareCode(connection, a, b);
  if (!compared.ok()) {
    session.Note(StrCat("the files cannot be compared: ", Sentence(compared.status())));
    return {};
  }
  return *std::move(compared);
}

// The changed lines of files, as `diff -u` shows them; leaves out files that are too large or too many.
absl::StatusOr<std::string> LinesOfCode(Connection& connection, const v1::JobRecord& a,
                                        const v1::JobRecord& b, const CodeComparison& code) {
  const CodeFetch from_a(connection, a), from_b(connection, b);
  ASSIGN_OR_RETURN(const tree::Placement places_a, from_a.Placement(code.a));
  ASSIGN_OR_RETURN(const tree::Placement places_b, from_b.Placement(code.b));
  std::string text;
  size_t shown = 0;
  for (const auto& [path, in_a, in_b] : code.files) {
    if (in_a == nullptr || in_b == nullptr || !in_a->IsFile() || !in_b->IsFile()) continue;
    if (in_a->size > kComparedBytesMax || in_b->size > kComparedBytesMax) continue;
    if (shown++ == kDifferencesShown) break;
    ASSIGN_OR_RETURN(const std::string old_text, from_a.File(code.a, places_a, *in_a));
    ASSIGN_OR_RETURN(const std::string new_text, from_b.File(code.b, places_b, *in_b));
    StrAppend(&text, UnifiedDiff(old_text, new_text, StrCat("a/", path), StrCat("b/", path)));
  }
  return text;
}

std::string DiffJson(const std::vector<ConfigurationDifference>& differences,
                     const CodeComparison& code, const std::string& a, const std::string& b) {
  common::JsonArray list("\n  ");
  for (const ConfigurationDifference& each : differences) {
    list.Add(
        common::JsonObject().Add("field", each.field).Add("a", each.a).Add("b", each.b).Done());
  }
  common::JsonObject json = common::JsonObject::OfKind("JobDifference");
  json.Add("a", a).Add("b", b).Add("differences", list.Done("\n"));
  if (code.is_known) json.AddLine("files", DifferenceJson(code.files));
  return json.Line();
}

absl::StatusOr<int> Diff(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse a, connection->GetJob(arguments.words()[0]));
  ASSIGN_OR_RETURN(const v1::GetJobResponse b, connection->GetJob(arguments.words()[1]));
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection->ListNodes());
  const std::vector<ConfigurationDifference> differences =
      DifferencesOf(ConfigurationOf(a.record(), nodes), ConfigurationOf(b.record(), nodes));
  const std::string& name_a = a.record().name();
  const std::string& name_b = b.record().name();
  CodeComparison code = CompareCodeIfAny(session, *connection, a.record(), b.record());
  code.files = DifferencesOf(code.a, code.b);
  if (arguments.Get("output") == "json") {
    session.Print(DiffJson(differences, code, name_a, name_b));
  } else if (!differences.empty()) {
    session.Print(StrCat("--- ", name_a, "\n+++ ", name_b, "\n",
                         UnifiedText(differences, session.terminal())));
    if (code.is_known) {
      session.Print(StrCat("\n", CountedFiles(code.files.size()), " of the code:\n",
                           DifferenceText(code.files)));
    }
    if (code.is_known && arguments.Has("code")) {
      ASSIGN_OR_RETURN(const std::string lines,
                       LinesOfCode(*connection, a.record(), b.record(), code));
      session.Print("\n" + lines);
    }
  }
  return differences.empty() ? kExitOk : kExitFailed;
}

}  // namespace

const Command kDiffCommand = {
    .name = "diff",
    .place = 130,
    .summary = "show how the configurations of two jobs differ",
    .arguments = "JOB JOB",
    .least = 2,
    .most = 2,
    .flags = kDiffFlags,
    .completes = "job",
    .examples =
        "jobctl diff calm-otter-3 red-fox-4\tonly what differs\n"
        "jobctl diff calm-otter-3 red-fox-4 --code\tand in which lines of the code\n"
        "jobctl diff calm-otter-3 @last -o json\tfor programs",
    .notes =
        "Compared: code and its files, container, setup, command, arguments, directory,\n"
        "shape, devices, policies, labels, world size and nodes of the newest attempt,\n"
        "models of the devices, workers' versions, environment. Values of variables\n"
        "whose names look secret are hidden.\n\n"
        "Exit code: 0 equal, 1 different.",
    .run = Diff};

}  // namespace muster::client
