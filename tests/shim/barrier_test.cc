// Hooks of an attempt's containers wait for each other (shim/barrier.h).
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim_fixture.h"

namespace muster::worker {
namespace {

class ShimMeet : public ShimFixture {
 protected:
  pid_t Come(const std::string& directory) {
    const std::string shim = SiblingBinary("../muster-shim");
    const char* const words[] = {shim.c_str(), common::kBarrierArgument, directory.c_str(), "2",
                                 nullptr};
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, shim.c_str(), nullptr, nullptr, const_cast<char**>(words), environ),
              0);
    return pid;
  }
  // -1: not within the time.
  static int EndOf(pid_t pid, int within_ms) {
    const common::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended{fd.get(), POLLIN, 0};
    int status = 0;
    if (poll(&ended, 1, within_ms) != 1 || waitpid(pid, &status, 0) != pid) return -1;
    return WEXITSTATUS(status);
  }
};

TEST_F(ShimMeet, TheFirstWaitsForTheLast) {
  const std::string directory = root_ + "/meeting";
  ASSERT_TRUE(common::MakeDirectories(directory).ok());
  const pid_t first = Come(directory);
  EXPECT_EQ(EndOf(first, 200), -1);
  const pid_t last = Come(directory);
  EXPECT_EQ(EndOf(first, 20'000), 0);
  EXPECT_EQ(EndOf(last, 20'000), 0);
}

TEST_F(ShimMeet, WithoutAPlaceToMeetNoneStarts) {
  EXPECT_EQ(EndOf(Come(root_ + "/none"), 20'000), 1);
}

}  // namespace
}  // namespace muster::worker
