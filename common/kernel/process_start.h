// The one way to start a process: posix_spawn, never a fork (gRPC's threads do not survive one). Every
// child begins apart from us, with the default action for every signal and none blocked, whatever our
// threads have set. How it ends is its starter's business. Any thread.
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
  std::string file = {};  // instead: what is opened
  int flags = 0;          // as for open(2); what is created is for its user alone
  int same_as = -1;       // instead: another of the child's
};
// Its standard input: nothing.
ChildFd NoInput();

struct ChildSetup {
  std::string program;  // a path
  std::vector<std::string> argv;
  std::optional<std::vector<std::string>> env = {};  // "NAME=value", complete; nothing: ours
  std::string directory = {};                        // empty: ours
  // The standard streams that are not named are ours. Files are opened where we are, in this order.
  std::vector<ChildFd> fds = {};
  // No descriptor above the highest of `fds` (and of the standard streams) is inherited. Otherwise
  // those without FD_CLOEXEC are.
  bool closes_rest = false;
  enum class Apart { kGroup, kSession };
  Apart apart = Apart::kSession;  // a process group, or a session, that it leads
  bool is_searched = false;       // `program` is a name to be found in PATH
};

// The child's number, or minus an errno.
pid_t StartProcess(const ChildSetup& start);

// A pipe between us and a child, whose end is given with ChildFd; neither end outlives an exec.
struct Pipe {
  UniqueFd from;  // is read
  UniqueFd to;    // is written
  // False with errno set. `flags`: O_NONBLOCK.
  bool Open(int flags = 0);
};

}  // namespace muster::common
