// From a directory to objects and back, and what a node does with what is wrong.
#include "tree/unpack.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <csignal>

#include "tests/tree/tree_fixture.h"
#include "tree/materialize.h"
#include "tree/walk.h"

namespace muster::tree {
namespace {

class TreeUnpack : public TreeCase {
 protected:
  void SetUp() override {
    TreeCase::SetUp();
    Write("run.sh", "#!/bin/sh\n", 0755);
    Write("a/b/c.txt", "hello");
    Write("a/copy", "hello");
    Write("a/empty", "");
    Write("large", std::string(3 * kOwnObjectBytes, 'l'));
    MakeDirectory("hollow");
    Link("a/b", "link");
    snapshot_ = *Take();
    Upload(snapshot_);
    ASSERT_TRUE(common::MakeDirectories(base_ + "/out").ok());
    Retarget(base_ + "/out");
  }
  void Retarget(const std::string& path) {
    directory_ = common::UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    target_.directory = directory_.get();
    target_.path = path;
  }
  absl::Status UnpackIt() {
    return Unpack(snapshot_.manifest, snapshot_.placement, FromStore(), target_);
  }
  mode_t ModeOf(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(lstat((target_.path + "/" + name).c_str(), &info), 0) << name;
    return info.st_mode & 07777;
  }
  bool IsEmpty() const { return common::ListDirectory(target_.path)->empty(); }

  Snapshot snapshot_;
  common::UniqueFd directory_;
  TreeTarget target_;
};

TEST_F(TreeUnpack, GivesTheSameTree) {
  ASSERT_TRUE(UnpackIt().ok());
  SnapshotOptions options;
  const absl::StatusOr<Snapshot> unpacked = TakeSnapshot(target_.path, options);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(unpacked->identity, snapshot_.identity);
  EXPECT_EQ(ModeOf("run.sh"), 0755u);
  EXPECT_EQ(ModeOf("a/b/c.txt"), 0644u);
  EXPECT_EQ(ModeOf("a/b"), 0755u);
}

TEST_F(TreeUnpack, LeavesOutTheModesThatItsUmaskNames) {
  target_.umask = 0077;
  ASSERT_TRUE(UnpackIt().ok());
  EXPECT_EQ(ModeOf("run.sh"), 0700u);
  EXPECT_EQ(ModeOf("a/b/c.txt"), 0600u);
  EXPECT_EQ(ModeOf("a"), 0700u);
}

TEST_F(TreeUnpack, GivesAllOfItToItsOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  target_.owner = TreeOwner{12'345, 54'321};
  ASSERT_TRUE(UnpackIt().ok());
  for (const Entry& entry : snapshot_.manifest.entries) {
    struct stat info {};
    ASSERT_EQ(lstat((target_.path + "/" + entry.path).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 12'345u) << entry.path;
    EXPECT_EQ(info.st_gid, 54'321u) << entry.path;
  }
}

TEST_F(TreeUnpack, RefusesWrongBytesAndLeavesNothing) {
  for (auto& [name, bytes] : store_) {
    std::string whole = bytes;
    bytes[bytes.size() / 2] ^= 1;
    EXPECT_EQ(UnpackIt().code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(IsEmpty());
    bytes = whole.substr(0, whole.size() - 1);
    EXPECT_EQ(UnpackIt().code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(IsEmpty());
    bytes = whole;
  }
  store_.clear();
  EXPECT_EQ(UnpackIt().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(IsEmpty());
}

TEST_F(TreeUnpack, LeavesWhatIsInTheWay) {
  ASSERT_TRUE(common::WriteFileDurably(target_.path + "/large", "mine").ok());
  const absl::Status status = UnpackIt();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_EQ(common::ReadFile(target_.path + "/large").value(), "mine");
  EXPECT_EQ(common::ListDirectory(target_.path)->size(), 1u);
}

// What another process of the node may do while the worker writes.
TEST_F(TreeUnpack, IsNotLedOutByALinkThatTookADirectorysPlace) {
  ASSERT_TRUE(common::MakeDirectories(base_ + "/outside/b").ok());
  const ReadObject store = FromStore();
  bool moved = false;
  const ReadObject read = [&](const Object& object, uint64_t offset, char* buffer, size_t size) {
    if (!moved) {
      moved = true;
      EXPECT_EQ(rename((target_.path + "/a").c_str(), (base_ + "/away").c_str()), 0);
      EXPECT_EQ(symlink((base_ + "/outside").c_str(), (target_.path + "/a").c_str()), 0);
    }
    return store(object, offset, buffer, size);
  };
  EXPECT_FALSE(Unpack(snapshot_.manifest, snapshot_.placement, read, target_).ok());
  EXPECT_TRUE(common::ListDirectory(base_ + "/outside/b")->empty());
  EXPECT_EQ(common::ListDirectory(base_ + "/outside")->size(), 1u);
}

TEST_F(TreeUnpack, OnAFullDiskNamesWhatIsNeededAndWhatIsFree) {
  const std::string disk = base_ + "/disk";
  ASSERT_TRUE(common::MakeDirectories(disk).ok());
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "cannot mount";
  Retarget(disk);
  const absl::Status status = UnpackIt();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("needs 3145748 bytes in 9 files and directories, and 1048576"),
            absl::string_view::npos)
      << status;
  EXPECT_TRUE(IsEmpty());
  directory_.Reset();
  EXPECT_EQ(umount(disk.c_str()), 0);
}

// A quota shows only when it is exceeded.
TEST_F(TreeUnpack, ThatRunsOutOfSpaceMidwayNamesItAndLeavesNothing) {
  const FillFile fill = [](size_t, int) {
    errno = EDQUOT;
    return common::ErrnoStatus("cannot write");
  };
  const absl::Status status = WriteTree(snapshot_.manifest, target_, fill);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("quota exceeded"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("needs 3145748 bytes"), absl::string_view::npos) << status;
  EXPECT_TRUE(IsEmpty());
}

TEST_F(TreeUnpack, ThatIsStoppedLeavesNothing) {
  int asked = 0;
  target_.stopped = [&] { return ++asked > 5; };
  EXPECT_EQ(UnpackIt().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(IsEmpty());
}

TEST_F(TreeUnpack, IsCopiedWithoutHardLinks) {
  ASSERT_TRUE(UnpackIt().ok());
  const common::UniqueFd source = std::move(directory_);
  ASSERT_TRUE(common::MakeDirectories(base_ + "/copy").ok());
  Retarget(base_ + "/copy");
  Materialized done;
  const absl::Status copied = Materialize(snapshot_.manifest, source.get(), target_, &done);
  ASSERT_TRUE(copied.ok()) << copied;
  EXPECT_EQ(done.shared_files + done.copied_files, 4u);
  EXPECT_EQ(TakeSnapshot(target_.path, {})->identity, snapshot_.identity);
  struct stat info {};
  ASSERT_EQ(stat((base_ + "/copy/large").c_str(), &info), 0);
  EXPECT_EQ(info.st_nlink, 1u);
}

TEST_F(TreeUnpack, IsNotCopiedOnceItWasChanged) {
  ASSERT_TRUE(UnpackIt().ok());
  const common::UniqueFd source = std::move(directory_);
  ASSERT_EQ(truncate((base_ + "/out/large").c_str(), 5), 0);
  ASSERT_TRUE(common::MakeDirectories(base_ + "/copy").ok());
  Retarget(base_ + "/copy");
  Materialized done;
  EXPECT_EQ(Materialize(snapshot_.manifest, source.get(), target_, &done).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(IsEmpty());
}

}  // namespace
}  // namespace muster::tree
