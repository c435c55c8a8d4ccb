// What is recorded of a directory's commit, in real repositories, and that a hostile one runs nothing.
#include "client/code/git_facts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/machine/child_output.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;

constexpr char kGit[] = "/usr/bin/git";

class GitFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(kGit, X_OK) != 0) GTEST_SKIP() << "there is no git";
    char path[] = "/tmp/git-facts.XXXXXX";
    base_ = mkdtemp(path);
    setenv("HOME", base_.c_str(), 1);
    repository_ = base_ + "/repository";
    fs::create_directory(repository_);
  }
  void TearDown() override {
    if (!base_.empty()) fs::remove_all(base_);
  }
  void Git(const std::vector<std::string>& words) const {
    ChildCommand command{
        .argv = {kGit, "-C", repository_, "-c", "user.name=t", "-c", "user.email=t@example.com"},
        .environment = OwnEnvironment()};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    const auto output = OutputOfChild(command);
    ASSERT_TRUE(output.ok() && output->status == 0) << words[0];
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(repository_ + "/" + name).parent_path());
    std::ofstream(repository_ + "/" + name) << text;
  }
  void Commit() const {
    Git({"init", "-q"});
    Write("sub/train.py", "print(1)\n");
    Git({"add", "."});
    Git({"commit", "-q", "-m", "first"});
  }

  std::string base_;
  std::string repository_;
};

TEST_F(GitFactsTest, ACommitAndWhetherSomethingDiffersFromIt) {
  EXPECT_EQ(ReadGitFacts(repository_).commit, "") << "no repository";
  Git({"init", "-q"});
  EXPECT_EQ(ReadGitFacts(repository_).commit, "") << "no commit";
  Commit();
  GitFacts facts = ReadGitFacts(repository_ + "/sub");
  EXPECT_EQ(facts.commit.size(), 40u);
  EXPECT_FALSE(facts.dirty);
  Write("other.py", "");
  EXPECT_FALSE(ReadGitFacts(repository_ + "/sub").dirty) << "of this directory only";
  EXPECT_TRUE(ReadGitFacts(repository_).dirty);
  fs::remove(repository_ + "/other.py");
  Write("sub/train.py", "print(2)\n");
  facts = ReadGitFacts(repository_);
  EXPECT_TRUE(facts.dirty);
  EXPECT_EQ(facts.commit.size(), 40u);
}

TEST_F(GitFactsTest, TheVariablesOfAnotherRepositoryAreNotHeeded) {
  Commit();
  setenv("GIT_DIR", "/nonexistent", 1);
  const GitFacts facts = ReadGitFacts(repository_);
  unsetenv("GIT_DIR");
  EXPECT_EQ(facts.commit.size(), 40u);
}

TEST_F(GitFactsTest, ARepositorysConfigurationRunsNothing) {
  Commit();
  const std::string ran = base_ + "/ran";
  const std::string command = "touch " + ran + "; cat";
  Git({"config", "core.fsmonitor", command});
  Git({"config", "filter.evil.clean", command});
  Git({"config", "filter.evil.process", command});
  Write(".gitattributes", "* filter=evil\n");
  Write("sub/train.py", "print(3)\n");
  const GitFacts facts = ReadGitFacts(repository_);
  EXPECT_TRUE(facts.dirty);
  EXPECT_FALSE(fs::exists(ran));
  // A name that -c cannot name.
  std::ofstream(repository_ + "/.git/config", std::ios::app)
      << "[filter \"a=b\"]\n\tclean = \"touch " << ran << "; cat\"\n";
  Write(".gitattributes", "* filter=a=b\n");
  EXPECT_EQ(ReadGitFacts(repository_).commit, "");
  EXPECT_FALSE(fs::exists(ran));
}

TEST(ChildOutputTest, WhatAChildPrintsWithinItsLimits) {
  const auto run = [](const std::string& script, int limit_ms, size_t bytes_max) {
    return OutputOfChild({.argv = {"/bin/sh", "-c", script},
                          .environment = {"A=1"},
                          .limit = std::chrono::milliseconds(limit_ms),
                          .bytes_max = bytes_max});
  };
  const auto plain = run("echo $A; echo no >&2; exit 3", 10'000, 100);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->text, "1\n");
  EXPECT_TRUE(plain->whole);
  EXPECT_EQ(WEXITSTATUS(plain->status), 3);
  const auto endless = run("while :; do echo y; done", 10'000, 10);
  ASSERT_TRUE(endless.ok()) << endless.status();
  EXPECT_EQ(endless->text.size(), 10u);
  EXPECT_FALSE(endless->whole);
  EXPECT_TRUE(absl::IsDeadlineExceeded(run("sleep 60", 50, 10).status()));
  EXPECT_FALSE(OutputOfChild({.argv = {"/no/such/program"}}).ok());
}

TEST(ChildOutputTest, WhatAChildReadsAndComplainsOf) {
  const auto run = [](const std::string& script, std::string_view input) {
    return OutputOfChild({.argv = {"/bin/sh", "-c", script},
                          .environment = OwnEnvironment(),
                          .bytes_max = 2 << 20,
                          .input = input});
  };
  // More than pipes hold, both ways at once.
  const std::string much(1 << 20, 'x');
  const auto copied = run("cat", much);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_TRUE(copied->text == much);
  // Without input it is at the end of it at once.
  EXPECT_EQ(run("cat; echo end", "")->text, "end\n");
  // One that reads nothing ends as it likes.
  const auto deaf = run("exec <&-; echo deaf >&2; exit 4", much);
  ASSERT_TRUE(deaf.ok()) << deaf.status();
  EXPECT_EQ(WEXITSTATUS(deaf->status), 4);
  EXPECT_EQ(deaf->errors, "deaf\n");
  // The end of many errors.
  const auto loud = run("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done", "");
  ASSERT_TRUE(loud.ok()) << loud.status();
  EXPECT_LE(loud->errors.size(), 4096u);
  EXPECT_TRUE(loud->errors.ends_with("line 1999\n"));
  // What it leaves behind with its stderr, as ssh's ControlPersist, delays nothing.
  const auto left = run("sleep 5 >/dev/null & echo $!", "");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(left->whole);
  kill(std::stoi(left->text), SIGKILL);
}

}  // namespace
}  // namespace muster::client
