// What an attempt's sandbox keeps of the node's /tmp.
#include "worker/confinement/isolation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::worker {
namespace {

using Dirs = std::vector<std::string>;

Dirs KeptFor(const std::string& workdir) {
  const Paths paths("/var/lib/muster/worker", "/run/muster");
  return SandboxOf({.has_own_mounts = true}, paths, {7, 1}, workdir).kept_dirs;
}

TEST(SandboxTest, AWorkingDirectoryBelowTmpIsKept) {
  EXPECT_EQ(KeptFor("/tmp/job"), Dirs{"/tmp/job"});
  EXPECT_EQ(KeptFor("/var/tmp/a/b"), Dirs{"/var/tmp/a/b"});
  EXPECT_EQ(KeptFor("/tmp/..."), Dirs{"/tmp/..."}) << "a name like any other";
}

// The node's whole /tmp would take the place of the attempt's own.
TEST(SandboxTest, TmpItselfIsNotKeptHoweverItIsWritten) {
  for (const char* workdir :
       {"/tmp",      "/tmp/",      "/tmp//",      "//tmp",        "//tmp/",
        "/tmp/.",    "/tmp/./",    "/tmp/./.",    "/./tmp",       "/./tmp/.",
        "/tmp/x/..", "/tmp/x/../", "/tmp/../tmp", "/var/../tmp",  "/var/../tmp/.",
        "/var/tmp",  "/var/tmp/",  "/var/tmp/.",  "/var/./tmp/.", "/var//tmp//"}) {
    EXPECT_EQ(KeptFor(workdir), Dirs()) << workdir;
  }
}

TEST(SandboxTest, APathThatLeavesTmpIsNotKept) {
  for (const char* workdir :
       {"/tmp/..", "/tmp/../etc", "/tmp/x/../../root", "/tmp/./x", "/tmp//x", "/tmpx/y", "tmp/x",
        "", "/", "/home/alice", "/var/tmp/../lib/muster"}) {
    EXPECT_EQ(KeptFor(workdir), Dirs()) << workdir;
  }
  EXPECT_EQ(KeptFor(std::string("/tmp/x\0y", 8)), Dirs());
}

TEST(SandboxTest, WithoutMountsOfItsOwnNothingIsHiddenOrKept) {
  const auto sandbox = SandboxOf({}, Paths("/s", "/r"), {7, 1}, "/tmp/job");
  EXPECT_EQ(sandbox.kept_dirs, Dirs());
  EXPECT_EQ(sandbox.hidden_dirs, Dirs());
}

}  // namespace
}  // namespace muster::worker
