// Access to the file system (common/files/files.h); each test uses its own directory.
#include "common/files/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/files/plain_files.h"
#include "common/files/private_directory.h"
#include "gtest/gtest.h"

namespace muster::common {
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-files-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(directory_).ok()); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
};

TEST_F(Files, ADurableWriteIsReadBackAndLeavesNoTemporary) {
  const std::string content("a\0b\xff", 4);
  ASSERT_TRUE(WriteFileDurably(Path("record"), content).ok());
  EXPECT_EQ(ReadFile(Path("record")).value(), content);
  EXPECT_EQ(ListDirectory(directory_).value(), std::vector<std::string>{"record"});
}

TEST_F(Files, ADurableWriteReplacesTheOldContentWhole) {
  ASSERT_TRUE(WriteFileDurably(Path("record"), std::string(5000, 'x')).ok());
  ASSERT_TRUE(WriteFileDurably(Path("record"), "short").ok());
  EXPECT_EQ(ReadFile(Path("record")).value(), "short");
}

TEST_F(Files, OfTwoThatCreateAFileOneDoesAndItsContentStays) {
  ASSERT_TRUE(CreateFileDurably(Path("record"), "first").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(CreateFileDurably(Path("record"), "second")));
  EXPECT_EQ(ReadFile(Path("record")).value(), "first");
  EXPECT_EQ(ListDirectory(directory_).value(), std::vector<std::string>{"record"});
}

TEST_F(Files, AnAtomicWriteReplacesTheOldContentAndIsNotHeldByAFifoBesideIt) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "a longer content").ok());
  ASSERT_EQ(mkfifo(Path("a.tmp").c_str(), 0600), 0);
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "short").ok());
  EXPECT_EQ(*ReadFile(Path("a")), "short");
  EXPECT_EQ(*ListDirectory(directory_), std::vector<std::string>{"a"});
  const absl::Status failed = WriteFileAtomically(Path("no/a"), "x");
  EXPECT_TRUE(absl::IsNotFound(failed)) << failed;
  EXPECT_NE(failed.message().find("no/a"), absl::string_view::npos) << failed;
}

TEST_F(Files, AReplaceWithReservedRoomNeedsNoMoreOfTheDisk) {
  ReserveFile(Path("a.tmp"), 4096);
  struct stat reserved {};
  ASSERT_EQ(stat(Path("a.tmp").c_str(), &reserved), 0);
  ASSERT_TRUE(ReplaceFile(Path("a"), "x", true));
  struct stat placed {};
  ASSERT_EQ(stat(Path("a").c_str(), &placed), 0);
  EXPECT_EQ(placed.st_ino, reserved.st_ino);
  EXPECT_EQ(placed.st_size, 1);
  EXPECT_FALSE(Exists(Path("a.tmp")));
}

TEST_F(Files, OfAPrivateDirectoryTheWayToItStaysOpenWhateverTheUmask) {
  const auto mode_of = [this](const std::string& name) {
    struct stat info {};
    return stat(Path(name).c_str(), &info) == 0 ? info.st_mode & 07777 : 0u;
  };
  ASSERT_EQ(mkdir(Path("there").c_str(), 0700), 0);
  const mode_t before = umask(0077);
  for (const char* path : {"there/a/b/own", "there/c/own/"})
    EXPECT_TRUE(MakePrivateDirectory(Path(path)).ok()) << path;
  EXPECT_TRUE(MakePrivateDirectory(Path("there/a/b/own")).ok()) << "again";
  umask(before);
  EXPECT_EQ(mode_of("there"), 0700u) << "what is there stays";
  for (const char* above : {"there/a", "there/a/b", "there/c"}) EXPECT_EQ(mode_of(above), 0711u);
  for (const char* own : {"there/a/b/own", "there/c/own"}) EXPECT_EQ(mode_of(own), 0700u) << own;
  ASSERT_TRUE(WriteFileDurably(Path("file"), "").ok());
  EXPECT_FALSE(MakePrivateDirectory(Path("file/below/own")).ok());
}

TEST_F(Files, ADurableWriteIsPrivateByDefault) {
  ASSERT_TRUE(WriteFileDurably(Path("record"), "x").ok());
  struct stat info {};
  ASSERT_EQ(stat(Path("record").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(Files, AMissingFileIsNamedWithItsReason) {
  const absl::Status status = ReadFile(Path("absent")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("absent: No such file"), absl::string_view::npos) << status;
}

TEST_F(Files, AFifoOrADeviceIsRefusedInsteadOfWaitedFor) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  for (const std::string& path : {Path("fifo"), std::string("/dev/zero"), directory_}) {
    const absl::Status read = ReadFile(path).status();
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument) << read;
    EXPECT_NE(read.message().find("is not a regular file"), absl::string_view::npos) << read;
  }
  EXPECT_EQ(OpenRegular(Path("fifo"), O_WRONLY | O_CREAT).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFileOrPipe("/dev/null").value(), "");
}

TEST_F(Files, RunningOutOfDescriptorsIsUnavailableAndPasses) {
  for (const int error : {EMFILE, ENFILE}) {
    errno = error;
    EXPECT_EQ(ErrnoStatus("open").code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(Files, ATreeThatIsDeeperThanThereAreDescriptorsAndClosedIsRemoved) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  UniqueFd at(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "d", 0700), 0);
    at = UniqueFd(openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    UniqueFd(openat(at.get(), "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  ASSERT_EQ(symlink("/etc", Path("link").c_str()), 0);
  ASSERT_EQ(mkdir(Path("closed").c_str(), 0700), 0);
  ASSERT_TRUE(WriteFileDurably(Path("closed/file"), "x").ok());
  ASSERT_EQ(chmod(Path("closed").c_str(), 0), 0);
  at.Reset();
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status removed = RemoveTree(directory_);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_FALSE(Exists(directory_));
  EXPECT_TRUE(Exists("/etc/passwd"));
  EXPECT_TRUE(RemoveTree(directory_).ok());
}

// As a user who is not root: root may write anywhere.
class NotRoot {
 public:
  NotRoot() : was_root_(geteuid() == 0) { EXPECT_EQ(was_root_ ? seteuid(65534) : 0, 0); }
  ~NotRoot() { EXPECT_EQ(was_root_ ? seteuid(0) : 0, 0); }

 private:
  const bool was_root_;
};

// Go's module cache and `chmod -R a-w` leave such trees.
TEST_F(Files, ATreeThatIsReadOnlyToItsOwnerIsRemoved) {
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  const NotRoot as_nobody;
  ASSERT_TRUE(MakeDirectories(Path("tree/a/b")).ok());
  for (const char* name : {"tree/file", "tree/a/file", "tree/a/b/file"}) {
    ASSERT_TRUE(WriteFileDurably(Path(name), "x").ok());
  }
  for (const char* name : {"tree/a/b", "tree/a", "tree"}) {
    ASSERT_EQ(chmod(Path(name).c_str(), 0500), 0);
  }
  const absl::Status removed = RemoveTree(Path("tree"));
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_FALSE(Exists(Path("tree")));
}

TEST_F(Files, AReadOnlyTreeIsRemovedHoweverDeep) {
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  const NotRoot as_nobody;
  std::vector<std::string> directories = {Path("tree")};
  for (int i = 0; i < 40; ++i) directories.push_back(directories.back() + "/d");
  ASSERT_TRUE(MakeDirectories(directories.back()).ok());
  for (auto path = directories.rbegin(); path != directories.rend(); ++path) {
    ASSERT_EQ(chmod(path->c_str(), 0500), 0);
  }
  const absl::Status removed = RemoveTree(Path("tree"));
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_FALSE(Exists(Path("tree")));
}

TEST_F(Files, ATreeThatItsOwnerMayNotEvenListIsRemoved) {
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  const NotRoot as_nobody;
  ASSERT_TRUE(MakeDirectories(Path("tree/a")).ok());
  ASSERT_EQ(chmod(Path("tree").c_str(), 0), 0);
  EXPECT_TRUE(RemoveTree(Path("tree")).ok());
  EXPECT_FALSE(Exists(Path("tree")));
}

TEST_F(Files, WhatMayNotBeRemovedIsNamedAndStays) {
  ASSERT_TRUE(MakeDirectories(Path("closed/tree")).ok());
  ASSERT_TRUE(WriteFileDurably(Path("closed/tree/file"), "x").ok());
  if (geteuid() != 0) GTEST_SKIP() << "needs another user's directory";
  const NotRoot as_nobody;
  EXPECT_EQ(RemoveTree(Path("closed/tree")).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(Files, AFileBeyondTheLimitIsRefused) {
  ASSERT_TRUE(WriteFileDurably(Path("big"), std::string(100, 'x')).ok());
  EXPECT_EQ(ReadFile(Path("big"), 99).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(ReadFile(Path("big"), 100).ok());
}

TEST_F(Files, ReadingAtAnOffsetIsShortOnlyAtTheEnd) {
  ASSERT_TRUE(WriteFileDurably(Path("file"), "0123456789").ok());
  const UniqueFd file(open(Path("file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(*ReadAt(file.get(), 3, 4, "file"), "3456");
  EXPECT_EQ(*ReadAt(file.get(), 8, 4, "file"), "89");
  EXPECT_EQ(*ReadAt(file.get(), 99, 4, "file"), "");
  const UniqueFd directory(open(directory_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ReadAt(directory.get(), 0, 4, "what it was").status().message(),
            "cannot read what it was: Is a directory");
}

TEST_F(Files, ADurableWriteThatFailsKeepsTheOldFileAndLeavesNothing) {
  ASSERT_TRUE(WriteFileDurably(Path("record"), "old").ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status written = WriteFileDurably(Path("record"), std::string(100, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(written.ok());
  EXPECT_EQ(std::string(written.message()).find(Path("record") + ": cannot write"), 0u) << written;
  EXPECT_EQ(ReadFile(Path("record")).value(), "old");
  EXPECT_EQ(ListDirectory(directory_).value(), std::vector<std::string>{"record"});
}

TEST_F(Files, ALockThatCannotBeMadeIsNamed) {
  EXPECT_EQ(LockFile(Path("absent/LOCK")).status().message(),
            "cannot open lock " + Path("absent/LOCK") + ": No such file or directory");
}

TEST_F(Files, AFullDiskIsResourceExhausted) {
  UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  EXPECT_EQ(WriteAll(full.get(), "x").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Files, DirectoriesAreMadeWithTheirParentsAndTwiceIsFine) {
  ASSERT_TRUE(MakeDirectories(Path("a/b/c")).ok());
  ASSERT_TRUE(MakeDirectories(Path("a/b/c")).ok());
  struct stat info {};
  ASSERT_EQ(stat(Path("a/b/c").c_str(), &info), 0);
  EXPECT_TRUE(S_ISDIR(info.st_mode));
}

TEST_F(Files, AFileInTheWayOfADirectoryIsAnError) {
  ASSERT_TRUE(WriteFileDurably(Path("a"), "x").ok());
  EXPECT_FALSE(MakeDirectories(Path("a")).ok());
  EXPECT_FALSE(MakeDirectories(Path("a/b")).ok());
}

TEST_F(Files, ListingIsSortedAndAMissingDirectoryIsNotFound) {
  for (const char* name : {"c", "a", "b"}) ASSERT_TRUE(WriteFileDurably(Path(name), "").ok());
  EXPECT_EQ(ListDirectory(directory_).value(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(ListDirectory(Path("absent")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Files, OnlyOneHolderHasALockUntilItLetsGo) {
  auto first = LockFile(Path("LOCK"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(LockFile(Path("LOCK")).status().code(), absl::StatusCode::kFailedPrecondition);
  first->Reset();
  EXPECT_TRUE(LockFile(Path("LOCK")).ok());
}

TEST_F(Files, AMovedDescriptorIsClosedOnce) {
  UniqueFd first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), number);
  second.Reset();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(Errno, BecomesTheCodeThatCallersDecideBy) {
  const auto code = [](int error) {
    errno = error;
    return ErrnoStatus("x").code();
  };
  EXPECT_EQ(code(ENOSPC), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EDQUOT), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(ENOENT), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EEXIST), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(EIO), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace muster::common
