// jobctl cp and jobctl outputs: what a job brought back.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/commands/cp_live.h"
#include "client/connection/connection.h"
#include "client/files/copy_files.h"
#include "client/files/copy_words.h"
#include "client/files/pull_file.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "client/text/outputs.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/outputs.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kNamedMax = 5;  // files in a note

// The outputs of one attempt, as the command line wants them.
struct Outputs {
  v1::JobRecord job;
  v1::Checkpoint set;
  std::vector<v1::CheckpointFile> files;  // of the wanted nodes, by path and node
};

absl::StatusOr<uint32_t> PartOfNode(const Outputs& outputs, const std::string& node) {
  for (uint32_t part = 0; part < outputs.set.parts(); ++part) {
    if (OutputsNode(outputs.job, outputs.set.attempt(), part) == node) return part;
  }
  std::string known;
  for (uint32_t part = 0; part < std::min<uint32_t>(outputs.set.parts(), kNamedMax); ++part) {
    common::StrAppend(&known, part == 0 ? "" : ", ",
                      OutputsNode(outputs.job, outputs.set.attempt(), part));
  }
  return Usage("JC1004",
               StrCat("attempt ", outputs.set.attempt(), " of ", outputs.job.name(),
                      " did not run on \"", common::Printable(node), "\""),
               StrCat("--node with one of its nodes: ", known,
                      outputs.set.parts() > kNamedMax ? ", …" : ""));
}

absl::StatusOr<Outputs> ReadOutputs(Session& session, Connection& connection,
                                    const AttemptOfJob& from, const Arguments& arguments) {
  Outputs outputs;
  ASSIGN_OR_RETURN(v1::GetJobResponse response, connection.GetJob(from.job));
  outputs.job = std::move(*response.mutable_record());
  ASSIGN_OR_RETURN(outputs.set, FindOutputs(outputs.job, from.attempt));
  ASSIGN_OR_RETURN(outputs.files,
                   connection.ListCheckpointFiles(OutputsReference(outputs.job, outputs.set)));
  if (arguments.Has("node")) {
    ASSIGN_OR_RETURN(const uint32_t wanted, PartOfNode(outputs, arguments.Get("node")));
    std::erase_if(outputs.files, [&](const auto& file) { return file.part() != wanted; });
  }
  std::sort(outputs.files.begin(), outputs.files.end(), [](const auto& a, const auto& b) {
    return std::pair<std::string_view, uint32_t>(a.path(), a.part()) <
           std::pair<std::string_view, uint32_t>(b.path(), b.part());
  });
  session.Note(StrCat(outputs.job.name(), ": outputs of attempt ", outputs.set.attempt(), ", ",
                      OutputsNodes(outputs.job, outputs.set), ", ",
                      LocalTime(outputs.set.committed_ms())));
  if (!from.attempt && !IsOver(outputs.job.state())) {
    session.Note(StrCat("the job is ", StateName(outputs.job.state()),
                        ": what its current attempt writes comes back when it ends"));
  }
  for (const std::string& note : OutputsNotes(outputs.job, outputs.set.attempt())) {
    session.Note(note);
  }
  return outputs;
}

// One file per path: where nodes differ, that of the lowest node, and a note.
std::vector<v1::CheckpointFile> Union(Session& session, const Outputs& outputs,
                                      const std::string& path) {
  std::vector<v1::CheckpointFile> taken;
  std::vector<std::string> differing;
  std::string other;
  for (const v1::CheckpointFile& file : outputs.files) {
    if (!common::LiesIn(file.path(), path)) continue;
    if (taken.empty() || taken.back().path() != file.path()) {
      taken.push_back(file);
      continue;
    }
    if (taken.back().sha256() == file.sha256()) continue;
    if (other.empty()) other = OutputsNode(outputs.job, outputs.set.attempt(), file.part());
    if (differing.empty() || differing.back() != file.path()) differing.push_back(file.path());
  }
  if (differing.empty()) return taken;
  std::string names;
  for (size_t i = 0; i < std::min(differing.size(), kNamedMax); ++i) {
    common::StrAppend(&names, i == 0 ? "" : ", ", common::Printable(differing[i]));
  }
  session.Note(StrCat("nodes differ in ", common::Counted(differing.size(), "file"), " (", names,
                      differing.size() > kNamedMax ? ", …" : "",
                      "): the first node's was taken; --node ", other, " takes that node's"));
  return taken;
}

absl::Status CopyOne(Session& session, Connection& connection, const RemotePath& source,
                     const std::string& destination, bool may_rename, const Arguments& arguments,
                     Copied* copied) {
  ASSIGN_OR_RETURN(const Outputs outputs, ReadOutputs(session, connection, source.from, arguments));
  const std::vector<v1::CheckpointFile> files = Union(session, outputs, source.path);
  if (files.empty() && !source.path.empty()) {
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1722",
         .what = StrCat("the outputs of attempt ", outputs.set.attempt(), " of ",
                        outputs.job.name(), " have no \"", common::Printable(source.path), "\"",
                        arguments.Has("node") ? StrCat(" from ", arguments.Get("node")) : ""),
         .fix = StrCat("jobctl outputs ", outputs.job.name(), "@", outputs.set.attempt())});
  }
  v1::PullFileRequest of;
  of.set_job(std::to_string(outputs.job.id()));
  of.set_outputs(true);
  of.set_attempt(outputs.set.attempt());
  SavedFiles saved(connection);
  const auto read = [&](const v1::CheckpointFile& file) {
    of.set_part(file.part());
    of.set_path(file.path());
    return saved.Reader(of);
  };
  return CopyFiles(session,
                   {.path = source,
                    .job = outputs.job.name(),
                    .files = files,
                    .read = read,
                    .verify = "copy again; if it differs again, check the coordinator's data: "
                              "muster-coordinator check"},
                   destination, may_rename, copied);
}

absl::Status CheckLiveFlags(const Arguments& arguments, bool is_into) {
  const bool is_live = is_into || arguments.Has("live") || arguments.Has("rank");
  if (!is_live || !arguments.Has("node")) return absl::OkStatus();
  return Usage("JC1004", "--node names whose outputs are copied, not where a rank runs",
               "--rank R: jobctl show JOB lists the ranks of each node");
}

absl::StatusOr<int> Copy(Session& session, const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  const std::string& destination = words.back();
  const bool is_into = IsRemote(destination);
  if (is_into && std::any_of(words.begin(), words.end() - 1, IsRemote)) {
    return Usage("JC1004", "both ends are a job's", "copy to this machine first, then to the job");
  }
  RETURN_IF_ERROR(CheckLiveFlags(arguments, is_into));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Copied copied;
  if (is_into) {
    ASSIGN_OR_RETURN(const RemotePath to, ParseRemote(destination));
    const std::vector<std::string> sources(words.begin(), words.end() - 1);
    RETURN_IF_ERROR(CopyInto(session, *connection, sources, to, arguments, &copied));
    session.Note(DescribeCopied(copied));
    return kExitOk;
  }
  std::vector<RemotePath> sources;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    ASSIGN_OR_RETURN(RemotePath source, ParseRemote(words[i]));
    sources.push_back(std::move(source));
  }
  const auto copy = arguments.Has("live") || arguments.Has("rank") ? CopyLive : CopyOne;
  for (const RemotePath& source : sources) {
    RETURN_IF_ERROR(
        copy(session, *connection, source, destination, sources.size() == 1, arguments, &copied));
  }
  session.Note(DescribeCopied(copied));
  return kExitOk;
}

absl::StatusOr<int> ListOutputs(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(
      const Outputs outputs,
      ReadOutputs(session, *connection, ParseAttemptOfJob(arguments.words()[0]), arguments));
  Listing listing;
  listing.kind = "OutputFileList";
  listing.columns = {{.key = "file", .names = true},
                     {.key = "size", .right = true},
                     {.key = "node"},
                     {.key = "sha256", .wide = true}};
  for (const v1::CheckpointFile& file : outputs.files) {
    listing.rows.push_back({Cell(file.path()), SizeCell(file.size()),
                            Cell(OutputsNode(outputs.job, outputs.set.attempt(), file.part())),
                            Cell(file.sha256())});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

constexpr Flag kNode = {.name = "node",
                        .value = "NAME",
                        .help = "only what this node brought back",
                        .completes = "node"};
constexpr Flag kOutputsFlags[] = {kNode};
constexpr Flag kCpFlags[] = {
    kNode,
    {.name = "live", .help = "not outputs, but what a running rank has now"},
    {.name = "rank", .value = "R", .help = "of this rank (0); implies --live"}};

}  // namespace

const Command kCpCommand = {
    .name = "cp",
    .place = 220,
    .summary = "copy a job's files to this machine, or files to a running job",
    .arguments = "JOB[@ATTEMPT]:PATH… DEST | FILE… JOB:PATH",
    .least = 2,
    .most = -1,
    .flags = kCpFlags,
    .completes = "job",
    .examples =
        "jobctl cp calm-otter-3: ./results\teverything that came back\n"
        "jobctl cp calm-otter-3:out/model.pt .\tone file\n"
        "jobctl cp calm-otter-3@0:out .\tof attempt 0\n"
        "jobctl cp --live calm-otter-3:out/plot.png .\twhile it runs\n"
        "jobctl cp vocab.txt calm-otter-3:data/\tto a running job",
    .notes =
        "Outputs are what `outputs:` in the job file names. They come back when an\n"
        "attempt ends, also when it failed or was cancelled. PATH is relative to the\n"
        "job's working directory; a directory is copied below DEST under its name.\n"
        "Every file is verified by its SHA-256; files that are already there and\n"
        "equal are not sent again, and an interrupted copy resumes. If nodes differ in\n"
        "a file, the first node's is copied; see --node. To a job, and with --live, the\n"
        "working directory is a running rank's; only for the job's owner.",
    .run = Copy};
const Command kOutputsCommand = {.name = "outputs",
                                 .place = 210,
                                 .summary = "list the files that a job brought back",
                                 .arguments = "JOB[@ATTEMPT]",
                                 .least = 1,
                                 .most = 1,
                                 .flags = kOutputsFlags,
                                 .listing = true,
                                 .completes = "job",
                                 .examples = "jobctl outputs calm-otter-3\tof its newest attempt",
                                 .run = ListOutputs};

}  // namespace muster::client
