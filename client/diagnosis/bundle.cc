// bundle: texts are redacted whole, messages field by field, so that JSON stays JSON.
#include "client/diagnosis/bundle.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/diagnosis/report.h"
#include "client/job_text.h"
#include "client/record_json.h"
#include "common/files.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"

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
  const std::string temporary = StrCat(path, ".", getpid(), ".tmp");
  {
    const int fd =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return common::ErrnoStatus(StrCat("cannot create ", temporary));
    const common::UniqueFd file(fd);
    absl::Status written = common::WriteAll(fd, bytes);
    if (written.ok() && fsync(fd) != 0) written = common::ErrnoStatus("fsync");
    if (!written.ok()) {
      unlink(temporary.c_str());
      return absl::Status(written.code(), StrCat(temporary, ": ", common::MessageOf(written)));
    }
  }
  // Some file systems lack RENAME_NOREPLACE; link also refuses an existing path.
  bool placed = renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(),
                          replace ? 0 : RENAME_NOREPLACE) == 0;
  if (!placed && errno == EINVAL && !replace) {
    placed = link(temporary.c_str(), path.c_str()) == 0;
  }
  const int error = errno;
  unlink(temporary.c_str());
  if (placed) return absl::OkStatus();
  if (error == EEXIST) {
    return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                               {.code = "JC1213",
                                .what = StrCat(path, " exists"),
                                .fix = "choose another name, or add --force"});
  }
  errno = error;
  return common::ErrnoStatus(StrCat("cannot create ", path));
}

}  // namespace muster::client
