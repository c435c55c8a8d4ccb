#include "worker/confinement/secret_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/files/files.h"

namespace muster::worker {
namespace {

const AttemptKey kFirst{1, 0};
const AttemptKey kSecond{2, 0};

v1::LaunchAttempt LaunchWith(const std::string& name, const std::string& value) {
  v1::LaunchAttempt launch;
  launch.mutable_spec()->add_secrets(name);
  if (!value.empty()) (*launch.mutable_secrets())[name] = value;
  return launch;
}

class SecretFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/mwsXXXXXX";
    state = mkdtemp(name);
    paths = Paths(state, "");
  }
  void TearDown() override {
    RemoveSecretsOfOthers(paths, {});
    common::RemoveTree(state).IgnoreError();
  }
  absl::Status Write(const AttemptKey& key, const v1::LaunchAttempt& launch) {
    return WriteSecrets(paths, key, launch, {});
  }

  std::string state;
  Paths paths;
};

TEST_F(SecretFilesTest, ASecretIsAFileThatOnlyItsReaderMayRead) {
  ASSERT_TRUE(Write(kFirst, LaunchWith("wandb", "hunter22")).ok());
  const std::string path = SecretsDir(paths, kFirst) + "/wandb";
  EXPECT_EQ(*common::ReadFile(path), "hunter22");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0400u);
  ASSERT_EQ(stat(SecretsDir(paths, kFirst).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0711u);
}

TEST_F(SecretFilesTest, AMissingValueIsNamedAndAJobWithoutSecretsNeedsNothing) {
  const absl::Status missing = Write(kFirst, LaunchWith("wandb", ""));
  EXPECT_NE(missing.message().find("secret wandb did not come"), absl::string_view::npos);
  EXPECT_TRUE(Write(kSecond, v1::LaunchAttempt()).ok());
  EXPECT_FALSE(common::Exists(SecretsDir(paths, kSecond)));
}

TEST_F(SecretFilesTest, WithTheAttemptTheyAreGoneAndTheLastOneTakesTheDirectoryAlong) {
  ASSERT_TRUE(Write(kFirst, LaunchWith("a", "value-a")).ok());
  ASSERT_TRUE(Write(kSecond, LaunchWith("b", "value-b")).ok());
  const std::string directory = SecretsDir(paths, kFirst);
  RemoveSecrets(paths, kFirst);
  EXPECT_FALSE(common::Exists(directory));
  EXPECT_TRUE(common::Exists(SecretsDir(paths, kSecond) + "/b"));
  RemoveSecrets(paths, kSecond);
  EXPECT_FALSE(common::Exists(directory.substr(0, directory.rfind('/'))));
}

TEST_F(SecretFilesTest, AStartKeepsThoseOfAttemptsThatRunOn) {
  ASSERT_TRUE(Write(kFirst, LaunchWith("a", "value-a")).ok());
  ASSERT_TRUE(Write(kSecond, LaunchWith("b", "value-b")).ok());
  RemoveSecretsOfOthers(paths, {kSecond});
  EXPECT_FALSE(common::Exists(SecretsDir(paths, kFirst)));
  EXPECT_TRUE(common::Exists(SecretsDir(paths, kSecond) + "/b"));
}

// Everybody may create files in /dev/shm.
TEST_F(SecretFilesTest, NobodyCanTakeTheDirectoryFirst) {
  const std::string guessed = SecretsDir(paths, kFirst);
  const std::string root = guessed.substr(0, guessed.rfind('/'));
  ASSERT_EQ(symlink(state.c_str(), root.c_str()), 0);
  ASSERT_TRUE(Write(kFirst, LaunchWith("a", "value-a")).ok());
  EXPECT_FALSE(common::Exists(state + "/1-0"));
  EXPECT_NE(SecretsDir(paths, kFirst), guessed);
  const std::string first = SecretsDir(paths, kFirst);
  EXPECT_EQ(*common::ReadFile(first + "/a"), "value-a");
  ASSERT_EQ(unlink(root.c_str()), 0);
  // Nor by its last name, which everybody could read.
  RemoveSecrets(paths, kFirst);
  const std::string last = first.substr(0, first.rfind('/'));
  ASSERT_EQ(symlink(state.c_str(), last.c_str()), 0);
  ASSERT_TRUE(Write(kSecond, LaunchWith("b", "value-b")).ok());
  EXPECT_EQ(*common::ReadFile(SecretsDir(paths, kSecond) + "/b"), "value-b");
  EXPECT_FALSE(common::Exists(state + "/2-0"));
  ASSERT_EQ(unlink(last.c_str()), 0);
}

// The worker, as root, would write to and remove what it has itself.
TEST_F(SecretFilesTest, NothingIsReachedThroughALinkInPlaceOfTheDirectory) {
  const std::string guessed = SecretsDir(paths, kFirst);
  const std::string root = guessed.substr(0, guessed.rfind('/'));
  ASSERT_TRUE(common::MakeDirectories(state + "/1-0").ok());
  ASSERT_TRUE(common::WriteFileDurably(state + "/1-0/launch.pb", "an attempt").ok());
  ASSERT_EQ(symlink(state.c_str(), root.c_str()), 0);
  EXPECT_TRUE(SecretValues(paths, kFirst).empty());
  ASSERT_TRUE(Write(kFirst, LaunchWith("a", "value-a")).ok());
  EXPECT_EQ(SecretValues(paths, kFirst), std::vector<std::string>{"value-a"});
  RemoveSecrets(paths, kFirst);
  RemoveSecretsOfOthers(paths, {});
  EXPECT_EQ(*common::ReadFile(state + "/1-0/launch.pb"), "an attempt");
  ASSERT_EQ(unlink(root.c_str()), 0);
}

// Of an attempt that a worker of 0.2.0 launched and this one adopted.
TEST_F(SecretFilesTest, WhatAnOlderWorkerWroteIsFoundAndRemoved) {
  const std::string older = SecretsDir(paths, kFirst);
  const std::string root = older.substr(0, older.rfind('/'));
  ASSERT_TRUE(common::MakeDirectories(older).ok());
  ASSERT_TRUE(common::WriteFileDurably(older + "/a", "value-a").ok());
  ASSERT_TRUE(Write(kSecond, LaunchWith("b", "value-b")).ok());
  EXPECT_EQ(SecretsDir(paths, kFirst), older);
  EXPECT_EQ(SecretValues(paths, kFirst), std::vector<std::string>{"value-a"});
  RemoveSecretsOfOthers(paths, {kFirst, kSecond});
  EXPECT_TRUE(common::Exists(older + "/a"));
  RemoveSecrets(paths, kFirst);
  EXPECT_FALSE(common::Exists(root));
  EXPECT_TRUE(common::Exists(SecretsDir(paths, kSecond) + "/b"));
}

TEST_F(SecretFilesTest, WhereSecretsLieIsKnown) {
  for (const char* path : {"/", "/dev", "/dev/shm", "/dev/shm/muster-00", "/dev/shm/muster-0/1-0"})
    EXPECT_TRUE(HoldsSecrets(path)) << path;
  for (const char* path : {"/data", "/dev/shm/data", "/dev/shmem"})
    EXPECT_FALSE(HoldsSecrets(path)) << path;
}

TEST_F(SecretFilesTest, ValuesAreHiddenInTexts) {
  v1::LaunchAttempt launch = LaunchWith("long", "hunter22-and-more");
  launch.mutable_spec()->add_secrets("short");
  (*launch.mutable_secrets())["short"] = "hunter22";
  ASSERT_TRUE(Write(kFirst, launch).ok());
  const auto values = SecretValues(paths, kFirst);
  EXPECT_EQ(HideValues("key hunter22, hunter22-and-more!", values), "key (hidden), (hidden)!");
  EXPECT_EQ(HideValues("abc", {"a"}), "abc");
}

}  // namespace
}  // namespace muster::worker
