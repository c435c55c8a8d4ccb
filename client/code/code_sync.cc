#include "client/code/code_sync.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/code/code_upload.h"
#include "client/code/git_facts.h"
#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "client/follow/follow.h"
#include "client/session/progress_line.h"
#include "client/session/session.h"
#include "client/session/spec_environment.h"
#include "client/terminal/signals.h"
#include "client/text/code_text.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"
#include "tree/digest.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;
using std::chrono::steady_clock;

// limit: code: remembered directories; the oldest are forgotten
constexpr size_t kIndexesMax = 200;  // directories whose snapshots are remembered

// The directory of the snapshots' indexes; empty, with a note, if it cannot be made.
std::string CodeCacheDirectory(Session& session) {
  std::string base = Variable("XDG_CACHE_HOME");
  if (!base.starts_with('/')) base = StrCat(HomeDirectory(), "/.cache");
  const std::string directory = StrCat(base, "/muster/trees");
  if (const absl::Status made = common::MakeDirectories(directory); !made.ok()) {
    session.Note(StrCat("code: every file is read each time, as there is no cache: ",
                        common::MessageOf(made)));
    return "";
  }
  return directory;
}

// Removes the oldest indexes beyond kIndexesMax. Best effort: without an index, files have to be
// read.
void PruneIndexes(const std::string& directory) {
  const auto names = common::ListDirectory(directory);
  if (!names.ok() || names->size() <= kIndexesMax) return;
  std::vector<std::pair<int64_t, std::string>> files;
  for (const std::string& name : *names) {
    struct stat info {};
    const std::string path = StrCat(directory, "/", name);
    if (name.ends_with(".index") && stat(path.c_str(), &info) == 0)
      files.emplace_back(info.st_mtime, path);
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + kIndexesMax < files.size(); ++i) unlink(files[i].second.c_str());
}

std::string CoordinatorName(const Session& session) {
  if (session.is_private()) return "the private coordinator";
  const std::string context = session.settings().Get("context");
  return context.empty() ? session.settings().server() : context;
}

// Shows an upload on a terminal.
class UploadView {
 public:
  explicit UploadView(const Session& session) : line_(session) {}

  void Show(const UploadProgress& progress) {
    const auto now = steady_clock::now();
    if (progress.bytes_sent > 0 && sending_since_ == steady_clock::time_point())
      sending_since_ = now;
    if (!line_.IsDue()) return;
    const std::chrono::duration<double> sending = now - sending_since_;
    line_.Show(UploadText(progress, sending.count()));
  }
  void Clear() { line_.Clear(); }

 private:
  ProgressLine line_;
  steady_clock::time_point sending_since_{};
};

CodeTransport TransportOf(Session& session, Connection* connection) {
  // The connection may be a new one after each `again`.
  const auto current = std::make_shared<Connection*>(connection);
  return {.prepare = [current](const auto& request) { return (*current)->PrepareObjects(request); },
          .push = [current](const NextChunk& next) { return (*current)->PushObjects(next); },
          .again = [&session, current](const absl::Status& lost, int tries) -> absl::Status {
            std::this_thread::sleep_for(std::chrono::milliseconds(100) * (1 << std::min(tries, 6)));
            ASSIGN_OR_RETURN(*current, Reconnect(session, lost));
            return absl::OkStatus();
          }};
}

void ShowWarnings(Session& session, const tree::Snapshot& snapshot) {
  for (const std::string& each : snapshot.warnings.first()) session.Note(StrCat("code: ", each));
  const uint64_t shown = snapshot.warnings.first().size();
  if (snapshot.warnings.count() > shown) {
    session.Note(
        StrCat("code: … and ", common::Counted(snapshot.warnings.count() - shown, "more warning")));
  }
  if (!snapshot.index_problem.empty()) session.Note(StrCat("code: ", snapshot.index_problem));
}

std::string Result(const UploadedTree& uploaded, steady_clock::duration took) {
  std::string text = StrCat("code: ", CountedFiles(uploaded.snapshot.counts.files), ", ",
                            common::HumanBytes(uploaded.snapshot.manifest.TotalBytes()), "; ");
  if (uploaded.sent_bytes == 0) return text + "nothing changed";
  const std::chrono::duration<double> seconds = took;
  return StrCat(text, "sent ", common::HumanBytes(uploaded.sent_bytes), " in ",
                absl::StrFormat("%.1f s", seconds.count()));
}

std::string HostAndPath(const std::string& root) {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  return common::Printable(StrCat(name, ":", root));
}

v1::CodeTree CodeTreeOf(const UploadedTree& uploaded, const std::string& root) {
  const tree::Snapshot& snapshot = uploaded.snapshot;
  v1::CodeTree code;
  code.set_tree(tree::Hex(snapshot.identity));
  code.set_manifest_bytes(snapshot.encoded.size());
  code.set_placement(tree::Hex(uploaded.placement));
  code.set_placement_bytes(uploaded.placement_bytes);
  code.set_files(snapshot.counts.files);
  code.set_bytes(snapshot.manifest.TotalBytes());
  const GitFacts git = ReadGitFacts(root);
  code.set_git_commit(git.commit);
  code.set_git_dirty(git.dirty);
  code.set_from(HostAndPath(root));
  return code;
}

// The user did not ask for the directory to be sent, so the fix is not to change it.
absl::Status OrNoSync(const absl::Status& refused) {
  common::Problem problem = common::ProblemOf(refused);
  if (!problem.code.starts_with("JC171")) return refused;
  StrAppend(&problem.fix, problem.fix.empty() ? "" : "; ",
            "--no-sync if the code is on the nodes already");
  return common::MakeProblem(refused.code(), problem);
}

// An ignore file may have left it out.
absl::Status CheckWorkdirIsSent(const tree::Manifest& manifest, const CodeChoice& choice) {
  if (choice.workdir.empty()) return absl::OkStatus();
  const auto at = std::lower_bound(manifest.entries.begin(), manifest.entries.end(), choice.workdir,
                                   [](const tree::Entry& entry, const std::string& path) {
                                     return tree::PathLess(entry.path, path);
                                   });
  if (at != manifest.entries.end() && at->path == choice.workdir &&
      at->kind == tree::Kind::kDirectory) {
    return absl::OkStatus();
  }
  return Usage("JC1714",
               StrCat("the working directory ", common::Printable(choice.workdir),
                      " is not sent: an ignore file leaves it out"),
               StrCat("correct .gitignore or .musterignore in ", choice.root));
}

}  // namespace

std::string UploadText(const UploadProgress& progress, double seconds) {
  if (progress.bytes_to_send == 0) {
    return StrCat("code: reading, ", CountedFiles(progress.files_read), ", ",
                  common::HumanBytes(progress.bytes_read));
  }
  const auto rate = static_cast<uint64_t>(progress.bytes_sent / std::max(seconds, 0.001));
  return StrCat("code: ", CountedFiles(progress.files_read), " read; sent ",
                common::HumanBytes(progress.bytes_sent), " of ",
                common::HumanBytes(progress.bytes_to_send), ", ", common::HumanBytes(rate), "/s");
}

absl::Status CheckPrepares(const Connection& connection) {
  const v1::GetServerResponse& server = connection.server();
  if (server.protocol() >= kCodeProtocol) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1715",
       .what = StrCat("the coordinator at ", connection.endpoint(), " (", server.version(),
                      ") is an older version, which would ignore code, setup, outputs and images"),
       .fix = "install this release there, or omit them"});
}

absl::Status SendCode(Session& session, const CodeChoice& choice, v1::JobSpec* spec) {
  if (choice.root.empty()) return absl::OkStatus();
  if (choice.by_default) {
    session.Note(StrCat("code: sending ", common::Printable(choice.root), " to ",
                        CoordinatorName(session),
                        " (default on a remote context; --no-sync: it is already on the nodes)"));
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  RETURN_IF_ERROR(CheckPrepares(*connection));
  HandleSignals([&session](int number, int) {
    session.Note(
        "\ninterrupted; no job was submitted. Data that was sent need not be resent for some time");
    _exit(128 + number);
  });
  UploadView view(session);
  const UploadOptions options = {
      .root = choice.root,
      .project = spec->project(),
      .cache_directory = CodeCacheDirectory(session),
      .now_ms = [] { return common::SystemClock().Read().wall_ms; },
      .on_progress = [&view](const UploadProgress& progress) { view.Show(progress); }};
  const auto began = steady_clock::now();
  const absl::StatusOr<UploadedTree> uploaded =
      UploadTree(TransportOf(session, connection), options);
  view.Clear();
  if (!uploaded.ok() && choice.by_default) return OrNoSync(uploaded.status());
  RETURN_IF_ERROR(uploaded.status());
  if (!options.cache_directory.empty()) PruneIndexes(options.cache_directory);
  ShowWarnings(session, uploaded->snapshot);
  RETURN_IF_ERROR(CheckWorkdirIsSent(uploaded->snapshot.manifest, choice));
  session.Note(Result(*uploaded, steady_clock::now() - began));
  *spec->mutable_code() = CodeTreeOf(*uploaded, choice.root);
  SubmitInterruptibly(session);
  return job::Validate(*spec);
}

void LeaveOutCode(const CodeChoice& choice, v1::JobSpec* spec) {
  if (choice.root.empty()) return;
  spec->clear_code();
  spec->set_workdir(JoinedPath(choice.root, choice.workdir));
}

}  // namespace muster::client
