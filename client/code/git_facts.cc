#include "client/code/git_facts.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/machine/child_output.h"
#include "client/session/spec_environment.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

// limit: code: git; the job has no commit
constexpr std::chrono::seconds kGitLimit{5};
constexpr size_t kFilterNamesBytesMax = 64 * 1024;

// Skips directories in PATH that depend on where jobctl was started.
std::string GitProgram() {
  std::vector<std::string> directories = absl::StrSplit(Variable("PATH"), ':');
  std::erase_if(directories, [](const std::string& each) { return !each.starts_with('/'); });
  return FindInDirectories("git", absl::StrJoin(directories, ":"));
}

std::vector<std::string> GitEnvironment() {
  // Without this process's GIT_DIR and the like, so that the directory decides. Takes no lock on
  // the user's index, asks no questions, and does not fetch objects that a partial clone lacks.
  std::vector<std::string> variables = {"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
                                        "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none"};
  for (const char* name : {"PATH", "HOME", "XDG_CONFIG_HOME", "USER"}) {
    if (const std::string value = Variable(name); !value.empty())
      variables.push_back(StrCat(name, "=", value));
  }
  return variables;
}

class Git {
 public:
  Git(std::string program, const std::string& directory)
      : start_({std::move(program), "--no-pager", "-C", directory, "-c", "core.fsmonitor=false",
                "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit"}) {}

  // Null if it fails. Killed once it has printed `bytes_max`.
  std::optional<std::string> Ask(const std::vector<std::string>& words, size_t bytes_max) const {
    ChildCommand command{.argv = start_,
                         .environment = GitEnvironment(),
                         .limit = kGitLimit,
                         .bytes_max = bytes_max};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    const absl::StatusOr<ChildOutput> output = OutputOfChild(command);
    if (!output.ok() || (output->whole && output->status != 0)) return std::nullopt;
    return output->text;
  }

  // `status` would run the commands of filters on files whose times changed. False: not all filters
  // can be disabled.
  bool LeaveOutFilters() {
    const std::vector<std::string> start = start_;
    for (const char* scope : {"--local", "--worktree"}) {
      const auto names =
          Git(start).Ask({"config", scope, "--includes", "--null", "--name-only", "--get-regexp",
                          "^filter\\..*\\.(clean|process|required)$"},
                         kFilterNamesBytesMax);
      if (!names.has_value()) continue;  // there is none
      // With a `=` in its name, -c would set something else.
      if (names->size() >= kFilterNamesBytesMax || names->find('=') != std::string::npos)
        return false;
      for (const absl::string_view name : absl::StrSplit(*names, '\0', absl::SkipEmpty()))
        start_.insert(start_.end(), {"-c", StrCat(common::FromAbsl(name), "=")});
    }
    return true;
  }

 private:
  explicit Git(std::vector<std::string> start) : start_(std::move(start)) {}

  std::vector<std::string> start_;
};

bool IsCommit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

GitFacts ReadGitFacts(const std::string& directory) {
  const std::string program = GitProgram();
  if (program.empty()) return {};
  Git git(program, directory);
  std::string commit = git.Ask({"rev-parse", "--verify", "HEAD"}, 256).value_or("");
  while (commit.ends_with('\n')) commit.pop_back();
  if (!IsCommit(commit) || !git.LeaveOutFilters()) return {};
  // A submodule has its own configuration, which these settings do not reach.
  const std::optional<std::string> changes =
      git.Ask({"status", "--porcelain", "--ignore-submodules=all", "--", "."}, 1);
  if (!changes.has_value()) return {};
  return {.commit = commit, .dirty = !changes->empty()};
}

}  // namespace muster::client
