// A copy of a directory that no manifest describes.
#include "tree/copy_tree.h"

#include "tests/tree/tree_fixture.h"

namespace muster::tree {
namespace {

class CopyTreeTest : public TreeCase {
 protected:
  absl::Status CopyIt(uint64_t entries_max = 1'000) {
    EXPECT_TRUE(common::MakeDirectories(base_ + "/out").ok());
    const common::UniqueFd from(open(Root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const common::UniqueFd to(open((base_ + "/out").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    TreeTarget target{.directory = to.get(), .path = base_ + "/out"};
    target.stopped = [this] { return stopped_; };
    return CopyTree(from.get(), target, entries_max, &done_);
  }
  mode_t ModeOf(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(lstat((base_ + "/out/" + name).c_str(), &info), 0) << name;
    return info.st_mode & 07777;
  }

  CopiedTree done_;
  bool stopped_ = false;
};

TEST_F(CopyTreeTest, FilesDirectoriesAndLinksAreCopiedAndNothingElse) {
  Write("a/run.sh", "#!/bin/sh\n", 04755);
  Write("a/data", "hello", 0600);
  MakeDirectory("hollow");
  Link("/etc/passwd", "outside");
  Link("nowhere", "dangling");
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  ASSERT_TRUE(CopyIt().ok());
  EXPECT_EQ(*common::ReadFile(base_ + "/out/a/data"), "hello");
  EXPECT_EQ(ModeOf("a/run.sh"), 0755u) << "no set-id bits";
  EXPECT_EQ(ModeOf("a/data"), 0644u);
  EXPECT_EQ(ModeOf("hollow"), 0755u);
  char target[64] = {};
  ASSERT_GT(readlink((base_ + "/out/outside").c_str(), target, sizeof target), 0);
  EXPECT_STREQ(target, "/etc/passwd") << "links stay as they are";
  EXPECT_FALSE(common::Exists(base_ + "/out/fifo"));
  EXPECT_EQ(done_.left_out, 1u);
}

TEST_F(CopyTreeTest, WhatTheCopyChangesTheSourceDoesNotSee) {
  Write("large", std::string(3 << 20, 'l'));
  ASSERT_TRUE(CopyIt().ok());
  ASSERT_TRUE(common::WriteFileDurably(base_ + "/out/large", "x").ok());
  EXPECT_EQ(common::ReadFile(Path("large"))->size(), size_t{3} << 20);
  EXPECT_EQ(done_.bytes, uint64_t{3} << 20);
}

TEST_F(CopyTreeTest, ItIsBoundedAndCanBeStopped) {
  for (const char* name : {"a", "b", "c"}) Write(name, "x");
  EXPECT_TRUE(absl::IsFailedPrecondition(CopyIt(2)));
  stopped_ = true;
  ASSERT_TRUE(common::RemoveTree(base_ + "/out").ok());
  EXPECT_TRUE(absl::IsCancelled(CopyIt()));
}

}  // namespace
}  // namespace muster::tree
