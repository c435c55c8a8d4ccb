// Files that appear whole or not at all.
#include "client/machine/output_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/files/files.h"
#include "common/problem.h"

namespace muster::client {
namespace {

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    char name[] = "/tmp/muster-out-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~OutputFileTest() override { static_cast<void>(common::RemoveTree(directory_)); }
  std::string At(const std::string& name) const { return directory_ + "/" + name; }
  std::vector<std::string> Names() const { return *common::ListDirectory(directory_); }

  std::string directory_;
};

TEST_F(OutputFileTest, NothingIsThereBeforeCommitOrAfterAFailure) {
  {
    auto file = OutputFile::Create(At("a"), false);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write(std::string(1 << 20, 'x')).ok());
    EXPECT_TRUE(Names().empty());
  }
  EXPECT_TRUE(Names().empty());
}

TEST_F(OutputFileTest, CommitGivesTheWholeFileItsName) {
  auto file = OutputFile::Create(At("deep/er/a"), false);
  ASSERT_TRUE(file->Write("one").ok() && file->Write("two").ok() && file->Commit().ok());
  EXPECT_EQ(*common::ReadFile(At("deep/er/a")), "onetwo");
}

TEST_F(OutputFileTest, AnExistingFileIsReplacedOnlyOnRequestAlsoIfItCameMeanwhile) {
  auto early = OutputFile::Create(At("a"), false);
  ASSERT_TRUE(early.ok());
  ASSERT_TRUE(common::WriteFileDurably(At("a"), "old").ok());
  EXPECT_EQ(common::CodeOf(OutputFile::Create(At("a"), false).status()), "JC1545");
  ASSERT_TRUE(early->Write("new").ok());
  EXPECT_EQ(common::CodeOf(early->Commit()), "JC1545");
  EXPECT_EQ(*common::ReadFile(At("a")), "old");
  auto forced = OutputFile::Create(At("a"), true);
  ASSERT_TRUE(forced->Write("new").ok() && forced->Commit().ok());
  EXPECT_EQ(*common::ReadFile(At("a")), "new");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

TEST_F(OutputFileTest, ADirectoryAndALinkAreNotReplaced) {
  ASSERT_TRUE(common::MakeDirectories(At("d")).ok());
  ASSERT_EQ(symlink("elsewhere", At("l").c_str()), 0);
  for (const char* name : {"d", "l"}) {
    EXPECT_EQ(common::CodeOf(OutputFile::Create(At(name), true).status()), "JC1545") << name;
  }
}

}  // namespace
}  // namespace muster::client
