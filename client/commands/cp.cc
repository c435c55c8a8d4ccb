// jobctl cp and jobctl outputs: what a job brought back.
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/listing.h"
#include "client/outputs.h"
#include "client/pull_file.h"
#include "client/pull_target.h"
#include "client/record_text.h"
#include "client/session.h"
#include "common/outputs.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kNamedMax = 5;  // files in a note

// JOB[@ATTEMPT]:PATH
struct RemotePath {
  AttemptOfJob from;
  std::string path;  // clean; empty: everything
};

// A colon after a slash belongs to a local path, as for scp.
bool IsRemote(std::string_view word) {
  const size_t colon = word.find(':');
  return colon != std::string_view::npos && colon > 0 && word.find('/') > colon;
}

absl::StatusOr<RemotePath> ParseRemote(const std::string& word) {
  if (!IsRemote(word)) {
    return Usage("JC1004", StrCat("\"", common::Printable(word), "\" is not JOB:PATH"),
                 "jobctl cp JOB:PATH DEST; JOB: alone is everything");
  }
  const size_t colon = word.find(':');
  const std::string path = word.substr(colon + 1);
  const auto clean = path.empty() ? std::string() : common::CleanOutput(path);
  if (!clean.has_value()) {
    return Usage("JC1004",
                 StrCat("the path \"", common::Printable(path),
                        "\" does not lie in the job's working directory"),
                 "name it as in outputs:, relative to the working directory");
  }
  return RemotePath{ParseAttemptOfJob(word.substr(0, colon)), *clean};
}

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

// Where the files of one source go: below a directory, under the path's last component, or, for
// one file and a name that is not a directory, under that name.
struct Placed {
  std::string directory;
  std::string name;  // of the source below it; empty: the files' own paths
};

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Placed PlaceOf(const RemotePath& source, const std::string& destination, bool may_rename,
               const std::vector<v1::CheckpointFile>& files) {
  const bool is_file = files.size() == 1 && files[0].path() == source.path;
  if (is_file && may_rename && !destination.ends_with('/') && !IsDirectory(destination)) {
    const size_t slash = destination.rfind('/');
    const std::string parent = slash == std::string::npos ? "."
                               : slash == 0               ? "/"
                                                          : destination.substr(0, slash);
    const std::string name = destination.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name != "." && name != "..") return {parent, name};
  }
  return {destination, source.path.substr(source.path.rfind('/') + 1)};
}

std::string NameBelow(const Placed& placed, const RemotePath& source,
                      const v1::CheckpointFile& file) {
  if (source.path.empty()) return file.path();
  return placed.name + file.path().substr(source.path.size());
}

// What one run copied, for the last line and so that no file replaces another one's copy.
struct Copied {
  uint64_t fetched = 0;
  uint64_t bytes = 0;
  uint64_t present = 0;
  std::map<std::string, std::string> sources;  // by target
};

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
  const Placed placed = PlaceOf(source, destination, may_rename, files);
  absl::StatusOr<PullTarget> target = PullTarget::At(placed.directory);
  if (!target.ok()) {
    return common::MakeProblem(absl::StatusCode::kInternal,
                               {.code = "JC1601",
                                .what = std::string(target.status().message()),
                                .fix = "name a directory that you own"});
  }
  v1::PullFileRequest of;
  of.set_job(std::to_string(outputs.job.id()));
  of.set_outputs(true);
  of.set_attempt(outputs.set.attempt());
  for (const v1::CheckpointFile& file : files) {
    const std::string name = NameBelow(placed, source, file);
    const std::string key = StrCat(placed.directory, "/", name);
    const std::string text = StrCat(outputs.job.name(), ":", file.path());
    const auto [known, is_new] = copied->sources.emplace(key, text);
    if (!is_new) {
      return Usage("JC1004",
                   StrCat("both ", common::Printable(known->second), " and ",
                          common::Printable(text), " would become ", common::Printable(key)),
                   "copy them to different directories");
    }
    of.set_part(file.part());
    ASSIGN_OR_RETURN(const Pulled pulled,
                     PullOne(connection, of, file, *target, name,
                             "copy again; if it differs again, check the coordinator's data: "
                             "muster-coordinator check"));
    if (pulled == Pulled::kPresent) {
      ++copied->present;
      continue;
    }
    ++copied->fetched;
    copied->bytes += file.size();
    session.Note(StrCat(common::Printable(name), "  ", common::HumanBytes(file.size())));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Copy(Session& session, const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  const std::string& destination = words.back();
  if (IsRemote(destination)) {
    return Usage("JC1004",
                 StrCat("\"", common::Printable(destination),
                        "\" is a job's path; files are copied from a job, not to it"),
                 "jobctl cp JOB:PATH DIR; for a directory of that name, ./NAME");
  }
  std::vector<RemotePath> sources;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    ASSIGN_OR_RETURN(RemotePath source, ParseRemote(words[i]));
    sources.push_back(std::move(source));
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Copied copied;
  for (const RemotePath& source : sources) {
    RETURN_IF_ERROR(CopyOne(session, *connection, source, destination, sources.size() == 1,
                            arguments, &copied));
  }
  session.Note(StrCat(common::Counted(copied.fetched, "file"), " copied, ",
                      common::HumanBytes(copied.bytes), "; ", copied.present,
                      " already there and equal"));
  return kExitOk;
}

absl::StatusOr<int> ListOutputs(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(
      const Outputs outputs,
      ReadOutputs(session, *connection, ParseAttemptOfJob(arguments.words()[0]), arguments));
  Listing listing;
  listing.kind = "OutputFileList";
  listing.columns = {{.key = "file", .shrink = true},
                     {.key = "size", .right = true},
                     {.key = "node"},
                     {.key = "sha256", .wide = true}};
  for (const v1::CheckpointFile& file : outputs.files) {
    listing.rows.push_back(
        {Cell(file.path()),
         Cell(Value(static_cast<int64_t>(file.size())), common::HumanBytes(file.size())),
         Cell(OutputsNode(outputs.job, outputs.set.attempt(), file.part())), Cell(file.sha256())});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

constexpr Flag kNodeOfOutputsFlags[] = {
    {.name = "node",
     .value = "NAME",
     .help = "only what this node brought back",
     .completes = "node"},
};

}  // namespace

const Command kCpCommand = {
    .name = "cp",
    .summary = "copy a job's outputs to this machine; an interrupted copy resumes",
    .arguments = "JOB[@ATTEMPT]:PATH… DEST",
    .least = 2,
    .most = -1,
    .flags = kNodeOfOutputsFlags,
    .completes = "job",
    .examples =
        "jobctl cp calm-otter-3: ./results\teverything that came back\n"
        "jobctl cp calm-otter-3:out/model.pt .\tone file\n"
        "jobctl cp calm-otter-3@0:out .\tof attempt 0",
    .notes =
        "Outputs are what `outputs:` in the job file names. They come back when an attempt "
        "ends, also when it\nfailed or was cancelled. PATH is relative to the job's working "
        "directory; a directory is copied below DEST\nunder its name. Every file is verified "
        "by its SHA-256; files that are already there and equal are not\nsent again. If "
        "nodes differ in a file, the first node's is copied; see --node.",
    .run = Copy};
const Command kOutputsCommand = {.name = "outputs",
                                 .summary = "list the files that a job brought back",
                                 .arguments = "JOB[@ATTEMPT]",
                                 .least = 1,
                                 .most = 1,
                                 .flags = kNodeOfOutputsFlags,
                                 .listing = true,
                                 .completes = "job",
                                 .examples = "jobctl outputs calm-otter-3\tof its newest attempt",
                                 .run = ListOutputs};

}  // namespace muster::client
