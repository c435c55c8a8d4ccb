#include "worker/preparation/setup_step.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hash/crc32c.h"
#include "common/hash/sha256.h"
#include "common/job/code.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "tree/materialize.h"
#include "worker/confinement/confined_command.h"
#include "worker/containers/rank_containers.h"
#include "worker/launch/launch_environment.h"
#include "worker/launch/marked_processes.h"
#include "worker/launch/prepared_place.h"
#include "worker/preparation/take_over.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr char kSetupMark[] = "MUSTER_SETUP";
// limit: setup: output kept in the job's events
constexpr size_t kSetupTailBytes = 8 * 1024;
// limit: setup: log of one; the rest is dropped
constexpr uint64_t kSetupLogBytesMax = 16 << 20;
constexpr size_t kLinesTold = 5;
constexpr size_t kLineBytesTold = 300;
constexpr int64_t kSayEveryMs = 1'000;
constexpr size_t kRecordBytesMax = 64 * 1024;
// Variables of the submitting shell that differ each time: setup does not see them, nor run again when
// they change.
constexpr std::string_view kSessionVariables[] = {"PWD",
                                                  "OLDPWD",
                                                  "SHLVL",
                                                  "_",
                                                  "TERM",
                                                  "COLUMNS",
                                                  "LINES",
                                                  "WINDOWID",
                                                  "DISPLAY",
                                                  "TMUX",
                                                  "TMUX_PANE",
                                                  "STY",
                                                  "SSH_TTY",
                                                  "SSH_CLIENT",
                                                  "SSH_CONNECTION",
                                                  "SSH_AUTH_SOCK",
                                                  "XDG_SESSION_ID",
                                                  "DBUS_SESSION_BUS_ADDRESS"};

std::string MarkOfWorker(const Paths& paths) {
  return StrCat("-", common::Crc32c(paths.StateDir()));
}

std::map<std::string, std::string> SetupEnvironment(const v1::JobSpec& spec) {
  std::map<std::string, std::string> env(spec.env().begin(), spec.env().end());
  for (const std::string_view name : kSessionVariables) env.erase(std::string(name));
  std::erase_if(env, [](const auto& variable) { return variable.first.starts_with("MUSTER_"); });
  return env;
}

// Everything that the result depends on.
std::vector<std::string> FactsOfSetup(const v1::JobSpec& spec, const ReadyImage* image,
                                      const RankAccount& account) {
  std::vector<std::string> facts = {"setup 1", spec.project(), spec.code().tree(),
                                    image == nullptr ? "" : image->digest,
                                    spec.has_code() ? spec.workdir() : ""};
  const bool is_other = account.ids.is_other;
  facts.push_back(StrCat(is_other ? account.ids.uid : geteuid()));
  facts.push_back(StrCat(is_other ? account.ids.gid : getegid()));
  for (const v1::Mount& mount : spec.container().mounts()) {
    facts.push_back(
        StrCat(mount.source(), ":", job::TargetOf(mount), mount.read_only() ? ":ro" : ""));
  }
  facts.push_back(StrCat("shm ", spec.container().shm_bytes()));
  facts.push_back(StrCat(spec.setup_size()));
  facts.insert(facts.end(), spec.setup().begin(), spec.setup().end());
  for (const auto& [name, value] : SetupEnvironment(spec)) {
    facts.push_back(name);
    facts.push_back(value);
  }
  return facts;
}

// Keeps the end of setup's output, and logs the beginning.
class SetupOutput {
 public:
  explicit SetupOutput(const std::string& path)
      : log_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)) {}
  void Take(std::string_view bytes) {
    tail_.append(bytes);
    if (tail_.size() > 2 * kSetupTailBytes) tail_.erase(0, tail_.size() - kSetupTailBytes);
    if (!log_.valid() || logged_ >= kSetupLogBytesMax) return;
    logged_ += bytes.size();
    common::WriteAll(log_.get(), bytes).IgnoreError();
  }
  std::string Tail() const {
    return tail_.substr(tail_.size() - std::min(tail_.size(), kSetupTailBytes));
  }
  // "line | line": the last ones that are not empty.
  std::string LastLines() const {
    const std::string tail = Tail();
    std::vector<std::string> lines =
        absl::StrSplit(tail, absl::ByAnyChar("\r\n"), absl::SkipWhitespace());
    if (lines.size() > kLinesTold)
      lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLinesTold));
    for (std::string& line : lines) line = common::Printable(line.substr(0, kLineBytesTold));
    return absl::StrJoin(lines, " | ");
  }

 private:
  const common::UniqueFd log_;
  uint64_t logged_ = 0;
  std::string tail_;
};

class SetupRun {
 public:
  SetupRun(PreparationContext& context, const v1::JobSpec& spec, const CachedTree* tree,
           const ReadyImage* image, const RankAccount& account, std::string entry,
           const Progress& progress)
      : context_(context),
        spec_(spec),
        tree_(tree),
        image_(image),
        account_(account),
        entry_(std::move(entry)),
        place_(PlaceOfSetup(entry_)),
        progress_(progress) {}

  absl::Status Make(v1::Preparation* record) {
    RETURN_IF_ERROR(MakeDirectories());
    RETURN_IF_ERROR(RunCommand(record));
    progress_.say("keeping the result of setup");
    ASSIGN_OR_RETURN(const uint64_t result, Take(place_.setup_dir));
    ASSIGN_OR_RETURN(const uint64_t tree, Take(place_.setup_tree));
    RETURN_IF_ERROR(common::RemoveTree(Temporary()));
    RETURN_IF_ERROR(common::RemoveTree(ContainerDir()));
    RETURN_IF_ERROR(common::WriteFileDurably(entry_ + "/done", record->SerializeAsString()));
    return context_.cache.Complete(entry_, result + tree);
  }

 private:
  std::string Temporary() const { return entry_ + "/tmp"; }
  std::string ContainerDir() const { return entry_ + "/container"; }
  bool is_other() const { return account_.ids.is_other; }

  absl::Status Failed(std::string_view how, std::string_view fix) const {
    return absl::FailedPreconditionError(
        StrCat("setup failed on ", context_.setup.node, " ", how, "; fix: ", fix));
  }

  absl::Status MakeOwned(const std::string& path) const {
    if (mkdir(path.c_str(), 0700) != 0) return common::ErrnoStatus(StrCat("cannot create ", path));
    return Give(path);
  }
  absl::Status Give(const std::string& path) const {
    if (!is_other() || lchown(path.c_str(), account_.ids.uid, account_.ids.gid) == 0)
      return absl::OkStatus();
    return common::ErrnoStatus(StrCat("cannot hand over ", path));
  }

  absl::Status MakeDirectories() const {
    RETURN_IF_ERROR(common::MakeDirectories(entry_));
    // Only the account's group may pass through.
    if (is_other() && (chown(entry_.c_str(), geteuid(), account_.ids.gid) != 0 ||
                       chmod(entry_.c_str(), 0710) != 0)) {
      return common::ErrnoStatus(StrCat("cannot hand over ", entry_));
    }
    RETURN_IF_ERROR(MakeOwned(place_.setup_dir));
    RETURN_IF_ERROR(MakeOwned(Temporary()));
    if (tree_ == nullptr) return MakeOwned(place_.setup_tree);
    progress_.say("copying code for setup");
    RETURN_IF_ERROR(common::MakeDirectories(place_.setup_tree));
    const common::UniqueFd target(
        open(place_.setup_tree.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!target.valid()) return common::ErrnoStatus(StrCat("cannot open ", place_.setup_tree));
    tree::TreeTarget to{.directory = target.get(), .path = place_.setup_tree};
    to.stopped = progress_.stopped;
    if (is_other()) to.owner = tree::TreeOwner{account_.ids.uid, account_.ids.gid};
    tree::Materialized done;
    const absl::Status copied =
        tree::Materialize(tree_->manifest, tree_->directory.get(), to, &done);
    // The tree in the cache has changed since it was unpacked: the caller unpacks it again.
    if (absl::IsFailedPrecondition(copied) || absl::IsInternal(copied))
      return absl::DataLossError(common::MessageOf(copied));
    RETURN_IF_ERROR(copied);
    return Give(place_.setup_tree);
  }

  common::RankLaunch MakeCommand() const {
    v1::RunNotify order;
    const bool is_below = spec_.has_code() && common::StaysInside(spec_.workdir());
    order.set_workdir(is_below ? StrCat(place_.setup_tree, "/", spec_.workdir())
                               : place_.setup_tree);
    *order.mutable_command() = spec_.setup();
    for (const auto& [name, value] : SetupEnvironment(spec_)) (*order.mutable_env())[name] = value;
    (*order.mutable_told())[kSetupMark] = Mark().value;
    LaunchFacts facts;
    facts.node = context_.setup.node;
    facts.device_kinds = context_.setup.device_kinds;
    const Person person = PersonOf(account_);
    facts.home = person.home;
    facts.user = person.name;
    common::RankLaunch command = BuildNotify(order, facts);
    EnterPlace(place_, &command);
    return command;
  }

  ProcessMark Mark() const {
    return {kSetupMark,
            StrCat(common::Sha256Hex(entry_).substr(0, 16), MarkOfWorker(context_.setup.paths))};
  }

  ContainerPlace Place() const {
    return PlaceOfSetup(context_.setup.node, context_.setup.paths, ContainerDir(), place_);
  }

  std::optional<LaunchProblem> CheckOrWrap(std::vector<common::RankLaunch>* command) const {
    if (image_ != nullptr) {
      return WrapRanks(Place(), *image_, spec_, v1::NodePart(), account_, place_, command);
    }
    const ActAs acting(account_);
    return CheckLaunch(context_.setup.node, command);
  }

  Confinement MakeConfinement() const {
    Confinement confinement{.shim_binary = context_.setup.shim_binary,
                            .no_new_privs = context_.setup.isolation.no_new_privs,
                            .sandbox = context_.setup.isolation.sandbox};
    if (image_ != nullptr) {
      confinement.mark = Mark().value;
      confinement.env = {StrCat(kSetupMark, "=", Mark().value)};
      confinement.container =
          LaunchOfContainers(Place(), context_.setup.containers, *image_, spec_.container());
      confinement.sandbox.has_own_processes = true;
      return confinement;
    }
    common::LaunchSandbox& sandbox = confinement.sandbox;
    if (!sandbox.has_own_mounts) return confinement;
    sandbox.temporary_dir = Temporary();
    sandbox.hidden_dirs = {context_.setup.paths.StateDir(), context_.setup.paths.RuntimeDir()};
    sandbox.shown_dirs = {place_.setup_dir, place_.setup_tree};
    return confinement;
  }

  absl::Status RunCommand(v1::Preparation* record) const {
    std::vector<common::RankLaunch> checked = {MakeCommand()};
    if (const auto problem = CheckOrWrap(&checked)) {
      return absl::FailedPreconditionError(StrCat("the job's setup cannot start: ", problem->text));
    }
    SetupOutput output(entry_ + "/log");
    const int64_t began_ms = common::MonotonicMs();
    std::atomic<bool> stop = false;
    int64_t said_ms = 0;
    progress_.say("running setup");
    const auto tick = [&] {
      if (progress_.stopped()) stop = true;
      const int64_t lasted = common::MonotonicMs() - began_ms;
      if (lasted - said_ms < kSayEveryMs) return;
      said_ms = lasted;
      progress_.say(StrCat("running setup for ", common::HumanDuration(lasted)));
    };
    BoundedCommand bounds{.timeout_ms = static_cast<int>(context_.setup.setup_timeout_ms),
                          .stop = &stop,
                          .output = [&](std::string_view bytes) { output.Take(bytes); },
                          .tick = tick,
                          .kill_rest = [mark = Mark()](int pid) { KillMarked(mark, pid); },
                          .ends_with_leader = true};
    // The process that waits for the container is the subreaper of all processes in it.
    if (image_ != nullptr) bounds.kill_it = KillBelow;
    const CommandOutput ended =
        RunConfined(MakeConfinement(), account_, checked.front(), std::move(bounds));
    if (stop) return StoppedStatus();
    const int64_t lasted_ms = common::MonotonicMs() - began_ms;
    record->set_ran_setup(true);
    record->set_setup_failed(!ended.problem.empty());
    record->set_setup_ms(lasted_ms);
    record->set_setup_output(output.Tail());
    return JudgeEnd(ended, lasted_ms, output.LastLines());
  }

  absl::Status JudgeEnd(const CommandOutput& ended, int64_t lasted_ms,
                        const std::string& lines) const {
    if (ended.problem.empty()) return absl::OkStatus();
    const std::string said = lines.empty() ? "; it printed nothing" : StrCat(": ", lines);
    if (ended.is_late) {
      return Failed(
          StrCat("because it took longer than ",
                 common::HumanDuration(context_.setup.setup_timeout_ms), said),
          "make it shorter, or install what takes long on the nodes or in the job's image");
    }
    const std::string after = StrCat(" after ", common::HumanDuration(lasted_ms), said);
    if (ended.exit_code > 0) {
      return Failed(StrCat("with exit code ", ended.exit_code, after),
                    "correct the job's setup, which can be tried in its directory with "
                    "MUSTER_SETUP_DIR set");
    }
    return Failed(StrCat("(", ended.problem, ")", after), "correct the job's setup");
  }

  absl::StatusOr<uint64_t> Take(const std::string& path) const {
    const common::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // Setup may have removed it.
    if (!fd.valid()) return Failed(StrCat("because it removed ", path), "do not remove it");
    return TakeOver(fd.get(), is_other(), progress_.stopped);
  }

  PreparationContext& context_;
  const v1::JobSpec& spec_;
  const CachedTree* const tree_;
  const ReadyImage* const image_;
  const RankAccount& account_;
  const std::string entry_;
  const PreparedPlace place_;
  const Progress& progress_;
};

}  // namespace

absl::StatusOr<CachedSetup> GetSetup(PreparationContext& context, const v1::JobSpec& spec,
                                     const CachedTree* tree, const ReadyImage* image,
                                     const RankAccount& account, const Progress& progress,
                                     v1::Preparation* record) {
  CachedSetup setup;
  setup.path = context.cache.SetupPath(FactsOfSetup(spec, image, account));
  ASSIGN_OR_RETURN(const Turns::Turn turn, context.turns.Take(setup.path, progress));
  setup.pin = context.cache.Hold(setup.path);
  if (const auto done = common::ReadFile(setup.path + "/done", kRecordBytesMax);
      done.ok() && record->ParseFromString(*done) && context.cache.Use(setup.path)) {
    record->set_ran_setup(false);
    return setup;
  }
  context.cache.Discard(setup.path);
  const Progress shared = turn.Shared(progress);
  SetupRun run(context, spec, tree, image, account, setup.path, shared);
  record->Clear();
  if (absl::Status made = run.Make(record); !made.ok()) {
    context.cache.Discard(setup.path);
    // An errno of this node's own files is not the job's fault.
    const bool is_of_node = absl::IsPermissionDenied(made) || absl::IsNotFound(made);
    return is_of_node ? absl::InternalError(common::MessageOf(made)) : made;
  }
  context.cache.Collect();
  return setup;
}

void KillOlderSetups(const Paths& paths) { KillMarkedBefore(kSetupMark, MarkOfWorker(paths)); }

}  // namespace muster::worker
