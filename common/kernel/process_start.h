// The one way to start a process: posix_spawn, never a fork (gRPC's threads do not survive one). Every child
// starts in its own process group or session, with the default action for every signal and none blocked,
// whatever our threads have set. Waiting for it is left to the caller. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/files/files.h"

namespace muster::common {

// Where one of the child's descriptors comes from.
struct ChildFd {
  int as = -1;            // its number in the child
  int ours = -1;          // a descriptor of ours
  std::string file = {};  // instead: a file to open
  int flags = 0;          // as for open(2); a new file is only for its user
  int same_as = -1;       // instead: another of the child's
};
// An empty standard input.
ChildFd NoInput();

struct ChildSetup {
  std::string program;  // a path
  std::vector<std::string> argv;
  std::optional<std::vector<std::string>> env = {};  // "NAME=value", complete; nothing: ours
  std::string directory = {};                        // empty: ours
  // Standard streams that are not listed are inherited. Files are opened relative to our working
  // directory, in this order.
  std::vector<ChildFd> fds = {};
  // No descriptor above the highest of `fds` (and of the standard streams) is inherited. Otherwise
  // those without FD_CLOEXEC are.
  bool closes_rest = false;
  enum class Apart { kGroup, kSession };
  Apart apart = Apart::kSession;  // a process group, or a session, that it leads
  bool is_searched = false;       // `program` is a name to be found in PATH
};

// The child's pid, or a negative errno.
pid_t StartProcess(const ChildSetup& start);

// A pipe between us and a child. The child gets its end through ChildFd; both ends are
// close-on-exec.
struct Pipe {
  UniqueFd from;  // read end
  UniqueFd to;    // write end
  // False with errno set. `flags`: O_NONBLOCK.
  bool Open(int flags = 0);
};

}  // namespace muster::common
