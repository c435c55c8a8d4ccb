#include "worker/preparation/take_over.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/files.h"

namespace muster::worker {
namespace {

class TakeOverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root changes owners";
    char pattern[] = "/tmp/muster-take-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    base_ = pattern;
    ASSERT_TRUE(common::MakeDirectories(base_ + "/dir/below").ok());
  }
  void TearDown() override {
    if (!base_.empty()) EXPECT_TRUE(common::RemoveTree(base_).ok());
  }
  void Write(const std::string& name, mode_t mode) const {
    const std::string path = base_ + "/" + name;
    ASSERT_TRUE(common::WriteFileDurably(path, "content").ok());
    ASSERT_EQ(chown(path.c_str(), 65'534, 65'534), 0);
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  struct stat Look(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(lstat((base_ + "/" + name).c_str(), &info), 0) << name;
    return info;
  }
  absl::StatusOr<uint64_t> TakeIt() const {
    const common::UniqueFd fd(open((base_ + "/dir").c_str(), O_RDONLY | O_DIRECTORY));
    return TakeOver(fd.get(), true, [] { return false; });
  }

  std::string base_;
};

TEST_F(TakeOverTest, EverythingBecomesTheWorkersAndReadable) {
  Write("dir/below/program", 04700);
  Write("dir/data", 0600);
  ASSERT_EQ(mkfifo((base_ + "/dir/fifo").c_str(), 0600), 0);
  ASSERT_EQ(chmod((base_ + "/dir/below").c_str(), 0700), 0);
  const auto bytes = TakeIt();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 0u);
  EXPECT_EQ(Look("dir/below/program").st_uid, 0u);
  EXPECT_EQ(Look("dir/below/program").st_mode & 07777, 0755u);
  EXPECT_EQ(Look("dir/data").st_mode & 07777, 0644u);
  EXPECT_EQ(Look("dir/below").st_mode & 07777, 0755u);
  EXPECT_FALSE(common::Exists(base_ + "/dir/fifo"));
}

TEST_F(TakeOverTest, WhatHasANameElsewhereStaysItsOwners) {
  Write("kept", 0600);
  ASSERT_EQ(link((base_ + "/kept").c_str(), (base_ + "/dir/linked").c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", (base_ + "/dir/link").c_str()), 0);
  const struct stat outside_before = [] {
    struct stat info {};
    stat("/etc/passwd", &info);
    return info;
  }();
  ASSERT_TRUE(TakeIt().ok());
  EXPECT_EQ(Look("kept").st_uid, 65'534u);
  EXPECT_EQ(Look("kept").st_mode & 07777, 0600u);
  EXPECT_EQ(Look("dir/linked").st_uid, 0u);
  EXPECT_EQ(*common::ReadFile(base_ + "/dir/linked"), "content");
  struct stat outside {};
  ASSERT_EQ(stat("/etc/passwd", &outside), 0);
  EXPECT_EQ(outside.st_ctim.tv_nsec, outside_before.st_ctim.tv_nsec) << "links are not followed";
}

}  // namespace
}  // namespace muster::worker
