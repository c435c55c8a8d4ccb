// Which directory travels with a job, and where in it the command runs.
#include "client/code/code_choice.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/problem.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;

class CodeChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/choice.XXXXXX";
    base_ = fs::canonical(mkdtemp(path)).string();
    fs::create_directories(base_ + "/home/vit/src/jobs");
    fs::create_directories(base_ + "/data");
    wishes_.here = base_ + "/home/vit";
  }
  void TearDown() override { fs::remove_all(base_); }

  // "root workdir", without the test's directory.
  std::string Chosen(const CodeOptions& options) const { return Shown(ChooseCode(options)); }
  std::string ByDefault(const CodeOptions& options) {
    return Shown(ChooseCodeByDefault(options, base_ + "/home", &refused_));
  }
  std::string Shown(const absl::StatusOr<CodeChoice>& choice) const {
    if (!choice.ok()) return common::CodeOf(choice.status());
    if (choice->root.empty()) return "none";
    return choice->root.substr(base_.size()) + " " + choice->workdir;
  }

  std::string base_;
  std::string refused_;
  CodeOptions wishes_;
};

TEST_F(CodeChoiceTest, WithoutAWordItIsTheCurrentDirectory) {
  EXPECT_EQ(Chosen(wishes_), "/home/vit ");
  wishes_.workdir = "src";
  wishes_.workdir_is_flag = true;
  EXPECT_EQ(Chosen(wishes_), "/home/vit/src ");
  wishes_.workdir = base_ + "/data/";
  EXPECT_EQ(Chosen(wishes_), "/data ");
  wishes_.workdir = "absent";
  EXPECT_EQ(Chosen(wishes_), "JC1713");
}

TEST_F(CodeChoiceTest, AJobFilesDirectoriesAreRelativeToIt) {
  wishes_.file_directory = base_ + "/home/vit/src/jobs";
  EXPECT_EQ(Chosen(wishes_), "/home/vit/src/jobs ");
  wishes_.workdir = "..";
  EXPECT_EQ(Chosen(wishes_), "/home/vit/src ");
  wishes_.workdir = ".";
  EXPECT_EQ(Chosen(wishes_), "/home/vit/src/jobs ");
  wishes_.workdir = "src";  // as a flag: relative to where it was typed
  wishes_.workdir_is_flag = true;
  EXPECT_EQ(Chosen(wishes_), "/home/vit/src ");
}

// A file that someone else wrote must not choose what of this machine is sent.
TEST_F(CodeChoiceTest, WhatAJobFileNamesElsewhereIsAskedFor) {
  const auto is_far = [](const CodeOptions& options) {
    const auto choice = ChooseCode(options);
    return choice.ok() && choice->is_far;
  };
  fs::create_directories(base_ + "/home/vit/.ssh");
  fs::create_directory_symlink("../../.ssh", base_ + "/home/vit/src/jobs/code");
  wishes_.file_directory = base_ + "/home/vit/src/jobs";
  wishes_.here = wishes_.file_directory;
  for (const char* far : {"../../.ssh", "..", "/", "code"}) {
    wishes_.workdir = far;
    EXPECT_TRUE(is_far(wishes_)) << far;
    std::string refused;
    const auto by_default = ChooseCodeByDefault(wishes_, base_ + "/home/vit", &refused);
    EXPECT_TRUE(!by_default.ok() || by_default->root.empty() || by_default->is_far) << far;
  }
  wishes_.workdir = "..";
  wishes_.here = base_ + "/home/vit";
  EXPECT_FALSE(is_far(wishes_)) << "below where the command is typed";
  wishes_.here = base_ + "/data";
  wishes_.workdir = ".";
  EXPECT_FALSE(is_far(wishes_)) << "beside the file";
  wishes_.workdir = "../../.ssh";
  wishes_.root = base_ + "/home/vit";
  EXPECT_FALSE(is_far(wishes_)) << "a person named the directory";
  wishes_.root = "";
  wishes_.workdir_is_flag = true;
  wishes_.workdir = base_ + "/home/vit/.ssh";
  EXPECT_FALSE(is_far(wishes_)) << "a person named the directory";
}

TEST_F(CodeChoiceTest, ADirectoryThatIsNamedContainsTheCommands) {
  wishes_.here = base_ + "/home/vit/src";
  wishes_.root = "..";
  EXPECT_EQ(Chosen(wishes_), "/home/vit src");
  wishes_.root = base_ + "/data";  // typed elsewhere: the command runs in its root
  EXPECT_EQ(Chosen(wishes_), "/data ");
  wishes_.root = "..";
  wishes_.workdir = "src/jobs";
  wishes_.workdir_is_flag = true;
  EXPECT_EQ(Chosen(wishes_), "/home/vit src/jobs");
  wishes_.workdir = base_ + "/data";
  EXPECT_EQ(Chosen(wishes_), "JC1714");
  wishes_.workdir = "../../data";
  EXPECT_EQ(Chosen(wishes_), "JC1714");
  wishes_.workdir = "absent";
  EXPECT_EQ(Chosen(wishes_), "JC1713");
  wishes_.root = "absent";
  EXPECT_EQ(Chosen(wishes_), "JC1713");
}

TEST_F(CodeChoiceTest, LinksOnTheWayDoNotMatter) {
  fs::create_directory_symlink(base_ + "/home", base_ + "/users");
  wishes_.here = base_ + "/users/vit/src";
  wishes_.root = base_ + "/home/vit";
  EXPECT_EQ(Chosen(wishes_), "/home/vit src");
}

TEST_F(CodeChoiceTest, ByDefaultItIsWhereTheJobWouldRunButNeverTheHome) {
  EXPECT_EQ(ByDefault(wishes_), "/home/vit ");
  wishes_.file_directory = base_ + "/home/vit/src/jobs";
  EXPECT_EQ(ByDefault(wishes_), "/home/vit ") << "as without sync";
  wishes_.workdir = "..";
  EXPECT_EQ(ByDefault(wishes_), "/home/vit/src ");
  wishes_.workdir = "/data";
  EXPECT_EQ(ByDefault(wishes_), "none") << "a directory of the nodes";
  EXPECT_EQ(refused_, "");
  for (const char* too_much : {"/home", ""}) {
    CodeOptions options;
    options.here = base_ + too_much;
    EXPECT_EQ(ByDefault(options), "none");
    EXPECT_EQ(refused_, options.here);
    EXPECT_EQ(Chosen(options), too_much + std::string(" ")) << "but if it is asked for";
  }
}

TEST(IsOnAnotherHostTest, SocketsAndAddressesOfThisHostAreHere) {
  for (const char* here : {"", "unix:/run/c.sock", "127.0.0.1:7700", "localhost:7700",
                           "127.9.9.9:1", "[::1]:7700", "no-such-name.invalid:7700"}) {
    EXPECT_FALSE(IsOnAnotherHost(here)) << here;
  }
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  EXPECT_FALSE(IsOnAnotherHost(std::string(name) + ":7700"));
  EXPECT_TRUE(IsOnAnotherHost("192.0.2.1:7700"));
  EXPECT_TRUE(IsOnAnotherHost("[2001:db8::1]:7700"));
}

}  // namespace
}  // namespace muster::client
