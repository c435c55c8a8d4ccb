#include "client/commands/cp_live.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "client/command_line/errors.h"
#include "client/files/live_files.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

// Each file takes its own command in the rank's place.
constexpr size_t kSentMax = 10'000;

// One file of this machine, and its target.
struct Sent {
  std::string from;
  std::string to;
};

struct CopyPlan {
  std::vector<Sent> files;
  std::vector<std::string> tops;  // what the sources become
};

absl::StatusOr<LiveFiles> FilesOf(Session& session, Connection& connection, const RemotePath& path,
                                  const Arguments& arguments) {
  if (path.from.attempt) {
    return Usage("JC1004",
                 StrCat("only the newest attempt of a job runs, not @", *path.from.attempt),
                 StrCat("name the job alone: ", common::Printable(path.from.job), ":PATH"));
  }
  ASSIGN_OR_RETURN(const int64_t rank, arguments.Number("rank", 0, common::kRanksMax - 1, 0));
  session.DoNotRepeat();
  return LiveFiles([&connection](const v1::ExecStart& start) { return connection.Exec(start); },
                   path.from.job, static_cast<uint32_t>(rank));
}

absl::Status Unreadable(const std::string& path, const std::string& why) {
  return common::MakeProblem(absl::StatusCode::kNotFound,
                             {.code = "JC1601",
                              .what = common::Printable(path),
                              .why = why,
                              .fix = "name files and directories that you can read"});
}

// Adds the regular files of `source` with their targets below `to`. Leaves out other files, and names
// them.
absl::Status AddTree(Session& session, const std::string& source, const std::string& to,
                     std::vector<Sent>* all) {
  struct stat info {};
  if (stat(source.c_str(), &info) != 0) return Unreadable(source, std::strerror(errno));
  if (S_ISREG(info.st_mode)) {
    all->push_back({source, to});
    return absl::OkStatus();
  }
  if (!S_ISDIR(info.st_mode))
    return Unreadable(source, "it is neither a regular file nor a directory");
  std::error_code error;
  for (fs::recursive_directory_iterator at(source, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_directory() && !at->is_symlink()) continue;
    const std::string below = at->path().lexically_relative(source).string();
    if (at->is_symlink() || !at->is_regular_file()) {
      session.Note(
          StrCat("not copied: ", common::Printable(at->path().string()), " (not a regular file)"));
      continue;
    }
    if (all->size() == kSentMax) {
      return Usage("JC1004", StrCat("there are more than ", kSentMax, " files to copy"),
                   "send a tree with the job: jobctl run --sync, or copy an archive");
    }
    all->push_back({at->path().string(), StrCat(to, "/", below)});
  }
  return error ? Unreadable(source, error.message()) : absl::OkStatus();
}

std::string NameOf(const std::string& source) {
  std::error_code error;
  const fs::path whole = fs::absolute(source, error).lexically_normal();
  const std::string name = whole.filename().string();
  return name.empty() ? whole.parent_path().filename().string() : name;
}

absl::StatusOr<CopyPlan> WhatGoesWhere(Session& session, LiveFiles& there,
                                       const std::vector<std::string>& sources,
                                       const RemotePath& destination) {
  LiveFiles::Kind kind = LiveFiles::Kind::kDirectory;
  if (!destination.path.empty()) {
    ASSIGN_OR_RETURN(kind, there.KindOf(destination.path));
  }
  const bool is_below = kind == LiveFiles::Kind::kDirectory || sources.size() > 1;
  if (is_below && kind == LiveFiles::Kind::kFile) {
    return Usage("JC1004",
                 StrCat("\"", common::Printable(destination.path), "\" is a file there, and ",
                        sources.size(), " sources cannot become one file"),
                 "name a directory");
  }
  CopyPlan plan;
  for (const std::string& source : sources) {
    std::string to = destination.path;
    if (is_below) common::StrAppend(&to, to.empty() ? "" : "/", NameOf(source));
    if (std::find(plan.tops.begin(), plan.tops.end(), to) != plan.tops.end()) {
      return Usage("JC1004", StrCat("two of the sources would become ", common::Printable(to)),
                   "copy them to different directories");
    }
    plan.tops.push_back(to);
    RETURN_IF_ERROR(AddTree(session, source, to, &plan.files));
  }
  return plan;
}

absl::Status SendOne(Session& session, LiveFiles& there, const Sent& sent,
                     const std::map<std::string, std::string>& present, Copied* copied) {
  if (!common::StaysInside(sent.to) || sent.to.find('\n') != std::string::npos)
    return Unreadable(sent.from, "such a name cannot be copied");
  const common::UniqueFd fd(open(sent.from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0)
    return Unreadable(sent.from, std::strerror(errno));
  ASSIGN_OR_RETURN(const std::string hash, common::Sha256HexOfFile(sent.from));
  if (const auto found = present.find(sent.to); found != present.end() && found->second == hash) {
    ++copied->present;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(there.Store(fd.get(), sent.to, hash, (info.st_mode & S_IXUSR) != 0));
  ++copied->files;
  copied->bytes += static_cast<uint64_t>(info.st_size);
  session.Note(StrCat(common::Printable(sent.to), "  ",
                      common::HumanBytes(static_cast<uint64_t>(info.st_size))));
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyLive(Session& session, Connection& connection, const RemotePath& source,
                      const std::string& destination, bool may_rename, const Arguments& arguments,
                      Copied* copied) {
  ASSIGN_OR_RETURN(LiveFiles there, FilesOf(session, connection, source, arguments));
  CopySource from{
      .path = source,
      .job = source.from.job,
      .files = {},
      .read =
          [&there](const v1::CheckpointFile& file) { return there.Read(file.path(), file.size()); },
      .verify = "it changed while it was copied: copy again"};
  ASSIGN_OR_RETURN(from.files, there.List(source.path));
  if (from.files.empty()) {
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1722",
         .what = StrCat("there is no file \"", common::Printable(source.path),
                        "\" in the working directory of that rank of ",
                        common::Printable(source.from.job), " on ", there.node()),
         .fix = StrCat("jobctl exec ", common::Printable(source.from.job), " -- ls -l")});
  }
  session.Note(StrCat("from the running rank on ", there.node(), ", as it is now"));
  return CopyFiles(session, from, destination, may_rename, copied);
}

absl::Status CopyInto(Session& session, Connection& connection,
                      const std::vector<std::string>& sources, const RemotePath& destination,
                      const Arguments& arguments, Copied* copied) {
  ASSIGN_OR_RETURN(LiveFiles there, FilesOf(session, connection, destination, arguments));
  ASSIGN_OR_RETURN(const CopyPlan plan, WhatGoesWhere(session, there, sources, destination));
  // Files that an earlier run has left.
  std::map<std::string, std::string> present;
  for (const std::string& top : plan.tops) {
    ASSIGN_OR_RETURN(const std::vector<v1::CheckpointFile> files, there.List(top));
    for (const v1::CheckpointFile& file : files) present[file.path()] = file.sha256();
  }
  for (const Sent& sent : plan.files)
    RETURN_IF_ERROR(SendOne(session, there, sent, present, copied));
  session.Note(StrCat("to the running rank on ", there.node(),
                      "; other nodes, and further attempts, have their own directories"));
  return absl::OkStatus();
}

}  // namespace muster::client
