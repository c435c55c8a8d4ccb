// Snapshots of real directories: what is in them, what is read again, what is refused.
#include "tree/snapshot.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "tests/tree/tree_fixture.h"
#include "tree/snapshot_index.h"

namespace muster::tree {
namespace {

class TreeSnapshot : public TreeCase {
 protected:
  void ExpectRefused(const std::string& line) {
    const absl::Status status = Take().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("\n  " + line), absl::string_view::npos) << status;
  }
};

TEST_F(TreeSnapshot, HasFilesLinksAndEmptyDirectoriesAndNothingIgnored) {
  Write("run.sh", "#!/bin/sh\n", 0755);
  Write("src/a.py", "a");
  Write("src/__pycache__/a.pyc", "c");
  Write(".git/HEAD", "ref");
  Write("src/sub/.git", "gitdir: x");
  Write(".gitignore", "*.pyc\n/out/\n");
  Write("out/big", "big");
  Write(".musterignore", "*.tmp\n");
  Write("x.tmp", "x");
  MakeDirectory("empty/below");
  Link("src/a.py", "link");
  const absl::StatusOr<Snapshot> snapshot = Take();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(Described(snapshot->manifest),
            ".gitignore f|.musterignore f|empty d|empty/below d|link -> src/a.py|run.sh x|src d|"
            "src/a.py f");
  EXPECT_TRUE(snapshot->warnings.empty()) << snapshot->warnings.Text();
  EXPECT_EQ(snapshot->counts.ignored, 3u);
  EXPECT_TRUE(Decode(snapshot->encoded).ok());
}

TEST_F(TreeSnapshot, IsTheSameForTheSameContentWhateverWasIgnoredOrPacked) {
  Write("a", "1");
  Write("b/c", "2");
  const Digest first = Take()->identity;
  Write("b/c", "3");
  EXPECT_NE(Take()->identity, first);
  Write("b/c", "2", 0600);
  utimensat(AT_FDCWD, Path("a").c_str(), nullptr, 0);
  EXPECT_EQ(Take()->identity, first);
  Write("a", "1", 0700);
  EXPECT_NE(Take()->identity, first);
}

TEST_F(TreeSnapshot, OfAnUnchangedTreeReadsNothingAndWritesNothing) {
  Write("a", "1");
  Write("b/c", std::string(kOwnObjectBytes + 1, 'x'));
  const absl::StatusOr<Snapshot> first = Take();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->counts.files_read, 2u);
  struct stat before {
  }, after{};
  const std::string index = IndexPath(base_ + "/cache", Root());
  ASSERT_EQ(stat(index.c_str(), &before), 0);
  const absl::StatusOr<Snapshot> second = Take();
  EXPECT_EQ(second->counts.files_read, 0u);
  EXPECT_EQ(second->identity, first->identity);
  ASSERT_EQ(stat(index.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(TreeSnapshot, ReadsAgainWhatChangedEvenIfItsSizeAndTimeDidNot) {
  Write("a", "1");
  Write("b", "2");
  const Digest first = Take()->identity;
  struct stat info {};
  ASSERT_EQ(stat(Path("a").c_str(), &info), 0);
  Write("a", "3");
  const timespec times[] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, Path("a").c_str(), times, 0), 0);
  const absl::StatusOr<Snapshot> second = Take();
  EXPECT_EQ(second->counts.files_read, 1u);
  EXPECT_NE(second->identity, first);
}

TEST_F(TreeSnapshot, ReadsAgainWhatWasWrittenAboutWhenTheIndexWas) {
  Write("a", "1");
  SnapshotOptions now;
  now.now_ms = NowMs();
  EXPECT_EQ(Take(now)->counts.files_read, 1u);
  now.now_ms = NowMs() + 60'000;  // the file is old by then, but was young when it was read
  EXPECT_EQ(Take(now)->counts.files_read, 1u);
  EXPECT_EQ(Take(now)->counts.files_read, 0u);
}

TEST_F(TreeSnapshot, ReadsAllWhenTheIndexIsDamaged) {
  Write("a", "1");
  const Digest first = Take()->identity;
  ASSERT_TRUE(common::WriteFileDurably(IndexPath(base_ + "/cache", Root()), "garbage").ok());
  const absl::StatusOr<Snapshot> second = Take();
  EXPECT_EQ(second->identity, first);
  EXPECT_EQ(second->counts.files_read, 1u);
  EXPECT_NE(second->index_problem.find("all files were read"), std::string::npos);
  EXPECT_EQ(Take()->index_problem, "");
}

TEST_F(TreeSnapshot, RefusesAllThatNoTreeCanContainByName) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  Write("set", "x", 04755);
  Write("line\nbreak\xFF", "x");
  Link("/etc/passwd", "absolute");
  Link("../outside", "up");
  MakeDirectory("sub");
  Link("sub/../..", "around");
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, Path("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(fd);
  ExpectRefused("fifo: is a FIFO");
  ExpectRefused("set: is a setuid file");
  ExpectRefused("line\\x0abreak\\xff: has a name that is not UTF-8");
  ExpectRefused("absolute: is a link to an absolute path");
  ExpectRefused("up: is a link that leads out of the tree");
  ExpectRefused("around: is a link that leads out of the tree");
  ExpectRefused("socket: is a socket");
  EXPECT_NE(Take().status().message().find("has 7 entries that cannot be sent"),
            absl::string_view::npos);
  Write(".musterignore", "fifo\nset\nline*\nabsolute\nup\naround\nsocket\n");
  EXPECT_TRUE(Take().ok());
}

TEST_F(TreeSnapshot, NamesTenOfManyRefusedEntriesAndCountsAll) {
  for (int i = 0; i < 13; ++i) Link("/", "l" + std::to_string(i));
  const absl::Status status = Take().status();
  EXPECT_NE(status.message().find("has 13 entries"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("… and 3 more"), absl::string_view::npos) << status;
}

TEST_F(TreeSnapshot, WarnsOfNamesThatDifferOnlyInCaseAndOfLinksToNothing) {
  Write("d/README", "1");
  Write("d/readme", "2");
  Write("kept", "3");
  Link("gone", "dangling");
  Link("kept", "fine");
  const absl::StatusOr<Snapshot> snapshot = Take();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->warnings.Text(),
            "\n  d/README: differs from readme only in case"
            "\n  dangling: is a link to gone, which is not part of the tree");
}

TEST_F(TreeSnapshot, ReadsAFileAgainThatChangesMeanwhile) {
  Write("a", "first");
  int reads = 0;
  SnapshotOptions options;
  options.on_read = [&](std::string_view, uint64_t) {
    if (++reads == 1) Write("a", "second try");
  };
  const absl::StatusOr<Snapshot> snapshot = Take(options);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(snapshot->manifest.entries[0].content, DigestOf("second try"));
}

TEST_F(TreeSnapshot, RefusesAFileThatNeverStopsChanging) {
  Write("a", "x");
  Write("b", "x");
  SnapshotOptions options;
  int reads = 0;
  options.on_read = [&](std::string_view path, uint64_t) {
    if (path == "a") Write("a", std::string(static_cast<size_t>(++reads), 'y'));
  };
  const absl::Status status = Take(options).status();
  EXPECT_EQ(reads, kReadTries);
  EXPECT_NE(status.message().find("\n  a: changes while it is read"), absl::string_view::npos)
      << status;
}

TEST_F(TreeSnapshot, LeavesOutAFileThatVanishesMeanwhile) {
  Write("a", "x");
  Write("b", "x");
  SnapshotOptions options;
  options.on_read = [&](std::string_view path, uint64_t) {
    if (path == "a") unlink(Path("b").c_str());
  };
  const absl::StatusOr<Snapshot> snapshot = Take(options);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(Described(snapshot->manifest), "a f");
  EXPECT_EQ(snapshot->counts.files, 1u);
}

TEST_F(TreeSnapshot, KeepsAnUnchangedFileInItsPackAndAMovedOneToo) {
  for (int i = 0; i < 10; ++i) {
    Write("f" + std::to_string(i), std::string(1000, static_cast<char>('a' + i)));
  }
  const absl::StatusOr<Snapshot> first = Take();
  ASSERT_EQ(first->placement.objects.size(), 1u);
  Write("f3", "changed");
  ASSERT_EQ(rename(Path("f4").c_str(), Path("moved").c_str()), 0);
  const absl::StatusOr<Snapshot> second = Take();
  ASSERT_EQ(second->placement.objects.size(), 2u);
  uint64_t fresh = 0;
  for (const Object& object : second->placement.objects) {
    if (object.name != first->placement.objects[0].name) fresh = object.size;
  }
  EXPECT_EQ(fresh, 7u);
  EXPECT_EQ(second->counts.files_repacked, 0u);
}

TEST_F(TreeSnapshot, RepacksWhatIsLeftOfAMostlyUnusedPack) {
  for (int i = 0; i < 10; ++i) {
    Write("f" + std::to_string(i), std::string(1000, static_cast<char>('a' + i)));
  }
  const absl::StatusOr<Snapshot> first = Take();
  for (int i = 0; i < 6; ++i) ASSERT_EQ(unlink(Path("f" + std::to_string(i)).c_str()), 0);
  const absl::StatusOr<Snapshot> second = Take();
  ASSERT_EQ(second->placement.objects.size(), 1u);
  EXPECT_EQ(second->placement.objects[0].size, 4'000u);
  EXPECT_EQ(second->counts.files_repacked, 4u);
  EXPECT_EQ(Take()->counts.files_read, 0u);
}

TEST_F(TreeSnapshot, GivesWhatIsInALostObjectANewPlace) {
  Write("a", "1");
  Write("b", "2");
  const absl::StatusOr<Snapshot> first = Take();
  ASSERT_EQ(unlink(Path("a").c_str()), 0);
  SnapshotOptions options;
  options.lost_objects = {first->placement.objects[0].name};
  const absl::StatusOr<Snapshot> second = Take(options);
  ASSERT_EQ(second->placement.objects.size(), 1u);
  EXPECT_EQ(second->placement.objects[0].name, DigestOf("2"));
}

}  // namespace
}  // namespace muster::tree
