// The same trees as git itself sees them: random rules over random names, compared with
// `git ls-files --others --cached --exclude-standard`.
#include <spawn.h>
#include <sys/wait.h>

#include <random>
#include <set>

#include "absl/strings/str_split.h"
#include "tests/tree/tree_fixture.h"
#include "tree/walk.h"

extern char** environ;

namespace muster::tree {
namespace {

// stdout of a program; nullopt if it cannot be run.
std::optional<std::string> Output(const std::vector<std::string>& words, const std::string& file) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || waitpid(pid, &status, 0) != pid || status != 0) return std::nullopt;
  return common::ReadFile(file).value();
}

class GitIgnore : public TreeCase {
 protected:
  void SetUp() override {
    TreeCase::SetUp();
    setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
    setenv("GIT_CONFIG_SYSTEM", "/dev/null", 1);
    setenv("XDG_CONFIG_HOME", base_.c_str(), 1);
    setenv("HOME", base_.c_str(), 1);
  }

  std::string Pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }

  std::string Line() {
    std::string line = random_() % 4 == 0 ? "!" : "";
    if (random_() % 4 == 0) line += "/";
    const int parts = 1 + static_cast<int>(random_() % 3);
    for (int i = 0; i < parts; ++i) {
      if (i > 0) line += "/";
      line += Pick({"a",           "b",     "ab",  "a*",  "*b",  "*",   "**",  "?",
                    "[ab]",        "[!a]",  "a**", "**b", "x.o", "*.o", "\\a", "a\\*",
                    "[[:alpha:]]", "[a-]x", "*a*", "a?",  "a b", "b "});
    }
    if (random_() % 4 == 0) line += "/";
    return line;
  }

  void MakeTree(const std::string& above, int depth) {
    for (const std::string name : {"a", "b", "ab", "x.o", "a*", "a b", "ax", "abb"}) {
      const std::string path = above + name;
      const auto kind = random_() % 4;
      if (kind == 0) continue;
      if (kind == 1 && depth < 4) {
        MakeDirectory(path);
        MakeTree(path + "/", depth + 1);
      } else {
        Write(path, "x");
      }
    }
    if (depth > 0 && random_() % 3 != 0) return;
    std::string rules;
    for (auto lines = 1 + random_() % 5; lines > 0; --lines) rules += Line() + "\n";
    Write(above + ".gitignore", rules);
    rules_ += above + ".gitignore:\n" + rules;
  }

  std::mt19937 random_{20'240'117};
  std::string rules_;
};

TEST_F(GitIgnore, GitLeavesOutTheSameFiles) {
  if (!Output({"git", "--version"}, base_ + "/out")) GTEST_SKIP() << "git is not installed";
  const int trees = getenv("MUSTER_TEST_FULL") != nullptr ? 400 : 60;
  size_t files = 0;
  for (int round = 0; round < trees; ++round) {
    ASSERT_TRUE(common::RemoveTree(Root()).ok());
    ASSERT_TRUE(common::MakeDirectories(Root()).ok());
    rules_.clear();
    MakeTree("", 0);
    ASSERT_TRUE(Output({"git", "-C", Root(), "init", "-q"}, base_ + "/out"));
    const auto listed = Output(
        {"git", "-C", Root(), "ls-files", "-z", "--others", "--cached", "--exclude-standard"},
        base_ + "/out");
    ASSERT_TRUE(listed);
    std::set<std::string> git, ours;
    for (const absl::string_view path : absl::StrSplit(*listed, '\0', absl::SkipEmpty())) {
      git.emplace(path);
    }
    const common::UniqueFd root(open(Root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Walk walk;
    ASSERT_TRUE(WalkTree(root.get(), &walk).ok());
    for (const Found& found : walk.found) {
      if (found.entry.IsFile()) ours.insert(found.entry.path);
    }
    ASSERT_EQ(ours, git) << "round " << round << "\n" << rules_;
    files += git.size();
  }
  EXPECT_GT(files, 100u);
}

}  // namespace
}  // namespace muster::tree
