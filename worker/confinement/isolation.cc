#include "worker/confinement/isolation.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/plain_files.h"
#include "common/files/private_directory.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/base/bounded_command.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kProbeMs = 10'000;
constexpr size_t kProbeBytesMax = 16 << 10;
constexpr mode_t kPassable = 0711;

// For each means, why the kernel refuses it; empty: it does not.
using ProbedMeans = std::map<std::string, std::string>;

ProbedMeans Probe(const std::string& shim_binary) {
  const CommandOutput output =
      RunBounded({shim_binary, common::kProbeArgument}, kProbeMs, kProbeBytesMax);
  ProbedMeans means;
  for (const char* name : {common::kMeansMounts, common::kMeansCapabilities,
                           common::kMeansNoNewPrivs, common::kMeansCallFilter, common::kMeansDomain,
                           common::kMeansIpc, common::kMeansProcesses}) {
    means[name] = output.problem.empty() ? "muster-shim --probe did not answer"
                                         : common::StrCat("muster-shim: ", output.problem);
  }
  for (const absl::string_view line : absl::StrSplit(output.out, '\n')) {
    const std::pair<std::string, std::string> words =
        absl::StrSplit(line, absl::MaxSplits('\t', 1));
    if (means.contains(words.first))
      means[words.first] = common::Printable(words.second.substr(0, common::kFactBytesMax / 2));
  }
  return means;
}

// True if it is available; reports it either way.
bool Take(const ProbedMeans& probed, const char* name, std::string_view word,
          v1::IsolationFacts* facts) {
  const std::string& lack = probed.at(name);
  if (lack.empty()) {
    facts->add_means(std::string(word));
  } else {
    facts->add_lacks(common::StrCat(word, ": ", lack));
  }
  return lack.empty();
}

bool IsBelow(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

absl::Status CheckAncestors(const std::string& path) {
  for (fs::path above = fs::path(path).parent_path();; above = above.parent_path()) {
    struct stat info {};
    if (stat(above.c_str(), &info) != 0) return common::ErrnoStatus(above.string());
    if ((info.st_mode & S_IXOTH) == 0) {
      return absl::FailedPreconditionError(common::StrCat(
          "ranks of other accounts cannot reach ", path, ", because ", above.string(),
          " lets only its owner through; fix: chmod o+x ", above.string(),
          ", or use another --state-dir and --runtime-dir, or --run-as worker"));
    }
    if (above == above.root_path()) return absl::OkStatus();
  }
}

absl::Status HandTo(const std::string& directory, const common::LaunchAccount& account) {
  if (lchown(directory.c_str(), account.uid, account.gid) == 0) return absl::OkStatus();
  return common::ErrnoStatus(common::StrCat("cannot hand over ", directory));
}

std::vector<std::string> DirsOfRanks(const Paths& paths, const AttemptKey& key) {
  return {paths.ErrorsDir(key), paths.CheckpointsDir(key), paths.TensorboardDir(key),
          paths.DiagnosticsDir(key)};
}

}  // namespace

Isolation ProbeIsolation(const RunAs& run_as, std::string_view sandbox,
                         const std::string& shim_binary) {
  Isolation isolation;
  const bool is_on = sandbox == "on" || (sandbox.empty() && run_as.IsOther());
  v1::IsolationFacts& facts = isolation.facts;
  facts.set_level(is_on ? "sandbox" : "none");
  facts.set_run_as(RunAsText(run_as).substr(0, common::kFactBytesMax));
  facts.set_allows_root(run_as.IsOther() ? run_as.allows_root : geteuid() == 0);
  if (!is_on && !run_as.IsOther()) return isolation;
  const ProbedMeans probed = Probe(shim_binary);
  isolation.no_new_privs = Take(probed, common::kMeansNoNewPrivs, "no_new_privs", &facts);
  isolation.sandbox.drops_capabilities =
      Take(probed, common::kMeansCapabilities, "capabilities", &facts);
  if (!is_on) return isolation;
  isolation.sandbox.filters_calls = Take(probed, common::kMeansCallFilter, "seccomp", &facts);
  isolation.sandbox.has_own_domain = Take(probed, common::kMeansDomain, "landlock", &facts);
  isolation.sandbox.has_own_mounts = Take(probed, common::kMeansMounts, "private /tmp", &facts);
  isolation.sandbox.has_own_ipc = Take(probed, common::kMeansIpc, "own System V memory", &facts);
  isolation.sandbox.has_own_processes =
      Take(probed, common::kMeansProcesses, "own processes", &facts);
  return isolation;
}

absl::Status MakeStateDirectory(const Paths& paths) {
  return common::MakePrivateDirectory(paths.StateDir());
}

absl::Status OpenTheWay(const RunAs& run_as, const Paths& paths) {
  if (!run_as.IsOther()) return absl::OkStatus();
  for (const std::string& directory : {paths.StateDir(), paths.Attempts(), paths.RuntimeDir()}) {
    if (chmod(directory.c_str(), kPassable) != 0)
      return common::ErrnoStatus(common::StrCat("cannot open ", directory));
    RETURN_IF_ERROR(CheckAncestors(directory));
  }
  return absl::OkStatus();
}

absl::Status MakeAttemptDirs(const Paths& paths, const AttemptKey& key, const RankAccount& account,
                             bool has_own_mounts) {
  std::vector<std::string> of_ranks = DirsOfRanks(paths, key);
  if (has_own_mounts) of_ranks.push_back(paths.TemporaryDir(key));
  for (const std::string& directory :
       {paths.SpoolDir(key), paths.MetricsDir(key), paths.UploadsDir(key), paths.ResumeDir(key)}) {
    RETURN_IF_ERROR(common::MakeDirectories(directory));
  }
  for (const std::string& directory : of_ranks) {
    RETURN_IF_ERROR(common::MakeDirectories(directory));
    if (account.ids.is_other) RETURN_IF_ERROR(HandTo(directory, account.ids));
  }
  if (!account.ids.is_other) return absl::OkStatus();
  // Not synced, like launch.pb: a record that a power failure has damaged gives no rights.
  if (chmod(paths.AttemptDir(key).c_str(), kPassable) != 0 ||
      !common::ReplaceFile(paths.Account(key), EncodeAccount(account), /*durable=*/false)) {
    return common::ErrnoStatus(common::StrCat("cannot prepare ", paths.AttemptDir(key)));
  }
  return absl::OkStatus();
}

std::vector<std::string> DirsOfAttempt(const Paths& paths, const AttemptKey& key, bool has_code) {
  std::vector<std::string> dirs = DirsOfRanks(paths, key);
  dirs.push_back(paths.ResumeDir(key));
  dirs.push_back(paths.CredentialDir(key));
  dirs.push_back(paths.OwnTrainerDir(key));
  if (has_code) dirs.push_back(paths.AttemptCode(key));
  return dirs;
}

common::LaunchSandbox SandboxOf(const common::LaunchSandbox& means, const Paths& paths,
                                const AttemptKey& key, const std::string& workdir, bool has_code) {
  common::LaunchSandbox sandbox = means;
  if (!means.has_own_mounts) return sandbox;
  sandbox.temporary_dir = paths.TemporaryDir(key);
  // "/tmp/." and "/tmp/../x" do not name directories of the job.
  const bool is_plain = workdir.starts_with('/') && common::StaysInside(workdir.substr(1));
  if (!has_code && is_plain && (IsBelow(workdir, "/tmp") || IsBelow(workdir, "/var/tmp")))
    sandbox.kept_dirs = {workdir};
  sandbox.hidden_dirs = {paths.StateDir()};
  if (!IsBelow(paths.RuntimeDir(), paths.StateDir()))
    sandbox.hidden_dirs.push_back(paths.RuntimeDir());
  sandbox.shown_dirs = DirsOfAttempt(paths, key, has_code);
  return sandbox;
}

}  // namespace muster::worker
