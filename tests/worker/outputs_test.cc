// What a job leaves behind, and what it does to it while it is read.
#include "worker/checkpoints/outputs.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/outputs.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

class OutputsTest : public testing::Test {
 protected:
  OutputsTest() {
    char name[] = "/tmp/motXXXXXX";
    base_ = mkdtemp(name);
    paths_ = Paths(base_ + "/state", base_ + "/state/run");
    fs::create_directories(paths_.AttemptDir({1, 0}));
    fs::create_directories(paths_.AttemptDir({2, 0}));
    fs::create_directories(work());
    spec_.set_workdir(work());
  }
  ~OutputsTest() override { common::RemoveTree(base_).IgnoreError(); }

  std::string work() const { return base_ + "/work"; }
  void Put(const std::string& name) {
    fs::create_directories(fs::path(work() + "/" + name).parent_path());
    std::ofstream(work() + "/" + name) << name;
  }
  absl::StatusOr<OutputTree> Open() const { return OutputTree::Open(paths_, {1, 0}, spec_, {}); }
  // "a b; not taken: …"
  std::string Found(const OutputTree& tree, std::initializer_list<const char*> outputs,
                    uint64_t quota_bytes = 0) {
    google::protobuf::RepeatedPtrField<std::string> named;
    for (const char* output : outputs) *named.Add() = output;
    LeftOut left_out;
    const auto found = tree.Find(named, quota_bytes, &left_out);
    if (!found.ok()) return std::string(found.status().message());
    std::string text;
    for (const std::string& file : *found) common::StrAppend(&text, file, " ");
    return text + left_out.Text();
  }

  std::string base_;
  Paths paths_;
  v1::JobSpec spec_;
};

TEST_F(OutputsTest, RegularFilesOfWhatIsNamedAndNothingElse) {
  Put("out/b");
  Put("out/deep/a");
  Put("other");
  fs::create_symlink("/etc/passwd", work() + "/out/link");
  fs::create_directory_symlink("/etc", work() + "/etc");
  ASSERT_EQ(mkfifo((work() + "/out/fifo").c_str(), 0600), 0);
  const auto tree = Open();
  ASSERT_TRUE(tree.ok()) << tree.status();
  const std::string found = Found(*tree, {"./out/", "out/b"});
  EXPECT_TRUE(found.starts_with("out/b out/deep/a not taken: ")) << found;
  EXPECT_NE(found.find("out/link (a symbolic link)"), std::string::npos);
  EXPECT_NE(found.find("out/fifo (a FIFO)"), std::string::npos);
  EXPECT_EQ(Found(*tree, {"missing"}), "not taken: missing (not there)");
  EXPECT_EQ(Found(*tree, {"etc"}), "not taken: etc (a symbolic link)");
  EXPECT_EQ(Found(*tree, {"etc/passwd"}), "not taken: etc/passwd (behind a symbolic link)");
  EXPECT_EQ(Found(*tree, {"../state"}), "not taken: ../state (outside the working directory)");
}

// What the coordinator would refuse is not sent first.
TEST_F(OutputsTest, MoreThanTheQuotaIsRefusedBeforeAnythingIsSent) {
  Put("out/12345");  // holds its name, nine bytes
  Put("out/6789a");
  const auto tree = Open();
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(Found(*tree, {"out"}, 18), "out/12345 out/6789a ");
  EXPECT_EQ(Found(*tree, {"out"}, 17),
            "they have more than 17 B on this node, which is what the coordinator keeps of a job "
            "(--job-outputs-quota), so none of them were taken; fix: name fewer, or pack them into "
            "an archive");
}

TEST_F(OutputsTest, AFileThatBecameALinkAfterItWasFoundIsNotOpened) {
  Put("out/a");
  Put("out/deep/b");
  std::ofstream(base_ + "/secret") << "secret";
  const auto tree = Open();
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(Found(*tree, {"out"}), "out/a out/deep/b ");
  fs::remove(work() + "/out/a");
  fs::create_symlink(base_ + "/secret", work() + "/out/a");
  EXPECT_EQ(tree->OpenFile("out/a").status().message(), "behind a symbolic link");
  fs::remove_all(work() + "/out/deep");
  fs::create_directory_symlink(base_, work() + "/out/deep");
  EXPECT_EQ(tree->OpenFile("out/deep/secret").status().message(), "behind a symbolic link");
  fs::remove(work() + "/out/a");
  ASSERT_EQ(mkfifo((work() + "/out/a").c_str(), 0600), 0);
  EXPECT_EQ(tree->OpenFile("out/a").status().message(), "not a regular file");
}

TEST_F(OutputsTest, AWorkingDirectoryThatBecameALinkToAnothersIsNotEntered) {
  fs::remove_all(work());
  fs::create_directory_symlink(paths_.AttemptDir({2, 0}), work());
  EXPECT_NE(Open().status().message().find("leads into the worker's own files"), std::string::npos);
  fs::remove(work());
  fs::create_directory_symlink(paths_.AttemptDir({1, 0}), work());
  EXPECT_TRUE(Open().ok());
}

TEST_F(OutputsTest, TheWorkersDirectoryIsNoOutputOfAJobThatHoldsIt) {
  spec_.set_workdir(base_);
  Put("a");
  const auto tree = Open();
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(Found(*tree, {"."}), "work/a not taken: state (the worker's own directory)");
}

TEST_F(OutputsTest, BeyondALimitNothingComes) {
  std::string deep = "out";
  for (int i = 0; i <= kOutputsDepthMax; ++i) deep += "/d";
  Put(deep + "/x");
  const auto tree = Open();
  ASSERT_TRUE(tree.ok());
  EXPECT_NE(Found(*tree, {"out"}).find("more than 64 directories below one another"),
            std::string::npos);
}

TEST_F(OutputsTest, NamesThatNoReaderCouldShowStay) {
  Put("out/\xff");
  Put("out/two\nlines");
  const auto tree = Open();
  ASSERT_TRUE(tree.ok());
  const std::string found = Found(*tree, {"out"});
  EXPECT_TRUE(found.starts_with("not taken: ")) << found;
  EXPECT_EQ(found.find('\n'), std::string::npos);
  EXPECT_EQ(found.find('\xff'), std::string::npos);
}

TEST(LeftOutTest, NamesAFewAndCountsTheRest) {
  LeftOut left_out;
  EXPECT_EQ(left_out.Text(), "");
  for (int i = 0; i < 20; ++i) left_out.Add(std::string(1'000, 'x'), "a socket");
  const std::string text = left_out.Text();
  EXPECT_LT(text.size(), 2'000u);
  EXPECT_TRUE(text.ends_with(" and 12 more")) << text;
}

TEST(OutputNamesTest, AreCleanedOrRefused) {
  using common::CleanOutput;
  EXPECT_EQ(CleanOutput("./results/"), "results");
  EXPECT_EQ(CleanOutput("."), "");
  EXPECT_EQ(CleanOutput("./"), CleanOutput("./."));
  for (const char* bad : {"/etc", "..", "a/../b", "a//b", "a/./b"})
    EXPECT_EQ(CleanOutput(bad), std::nullopt) << bad;
  EXPECT_TRUE(common::LiesIn("out/a", "out"));
  EXPECT_FALSE(common::LiesIn("output", "out"));
  EXPECT_TRUE(common::LiesIn("anything", ""));
}

TEST(PathsTest, AreWithinADirectoryByWholeNames) {
  using common::IsWithin;
  for (const char* directory : {"/a/b", "/a/", "/a", "/"})
    EXPECT_TRUE(IsWithin("/a/b", directory)) << directory;
  for (const char* directory : {"/a/b/c", "/a/bc", "/b", "/a/b/"})
    EXPECT_FALSE(IsWithin("/a/b", directory)) << directory;
}

}  // namespace
}  // namespace muster::worker
