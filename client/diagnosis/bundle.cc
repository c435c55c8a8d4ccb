// bundle: texts are redacted whole, messages field by field, so that JSON stays JSON.
#include "client/diagnosis/bundle.h"

#include <nlohmann/json.hpp>

#include "client/diagnosis/report.h"
#include "client/terminal/record_json.h"
#include "client/text/job_text.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

absl::StatusOr<std::string> NodesJson(const CaseFile& file, Redaction* redaction) {
  v1::ListNodesResponse nodes;
  for (const v1::NodeView& node : file.nodes) *nodes.add_nodes() = node;
  redaction->ApplyToTexts(&nodes);
  return MessageJson(nodes);
}

std::string EventLines(const CaseFile& file, Redaction* redaction) {
  std::string lines;
  for (const CaseEvent& event : file.events) {
    const nlohmann::json line = {
        {"time_ms", event.at_ms}, {"node", event.node}, {"text", redaction->Apply(event.text)}};
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return lines;
}

std::string StacksJson(const CaseFile& file, Redaction* redaction) {
  std::string list = "[";
  for (size_t i = 0; i < file.raw_records.size(); ++i) {
    list += StrCat(i == 0 ? "\n" : ",\n", redaction->Apply(file.raw_records[i]));
  }
  return list + "\n]\n";
}

std::string HiddenText(const Redaction& redaction) {
  std::string text;
  for (const auto& [kind, count] : redaction.hidden()) text += StrCat(count, " ", kind, "\n");
  return StrCat(
      text.empty() ? "nothing was hidden\n" : StrCat("hidden here:\n", text),
      "Look through the logs before you send this: what no rule recognizes is still there.\n");
}

}  // namespace

absl::StatusOr<std::vector<ArchiveFile>> BundleFiles(const CaseFile& file, BundleParts parts,
                                                     Redaction* redaction) {
  v1::JobRecord job = file.job;
  redaction->ApplyToTexts(&job);
  ASSIGN_OR_RETURN(std::string job_json, MessageJson(job));
  ASSIGN_OR_RETURN(std::string nodes_json, NodesJson(file, redaction));
  std::vector<ArchiveFile> files = {{"report.txt", redaction->Apply(parts.report)},
                                    {"job.json", std::move(job_json)},
                                    {"events.jsonl", EventLines(file, redaction)},
                                    {"metrics.csv", std::move(parts.metrics)},
                                    {"stacks.json", StacksJson(file, redaction)},
                                    {"nodes.json", std::move(nodes_json)},
                                    {"versions.txt", redaction->Apply(VersionsText(file))}};
  for (auto& [rank, text] : parts.logs) {
    files.push_back({StrCat("logs/rank-", rank, ".log"), redaction->Apply(text)});
    text.clear();
  }
  std::string gaps;
  for (const std::string& gap : file.gaps) gaps += StrCat(gap, "\n");
  if (!gaps.empty()) files.push_back({"not-known.txt", redaction->Apply(gaps)});
  files.push_back({"hidden.txt", HiddenText(*redaction)});
  return files;
}

absl::Status WriteBundle(const std::string& path, const std::string& bytes, bool replace) {
  const absl::Status written =
      replace ? common::WriteFileDurably(path, bytes) : common::CreateFileDurably(path, bytes);
  if (!absl::IsAlreadyExists(written)) return written;
  return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                             {.code = "JC1213",
                              .what = StrCat(path, " exists"),
                              .fix = "choose another name, or add --force"});
}

}  // namespace muster::client
