// What /proc shows of a rank's process and its threads, without stopping it. Names are foreign text.
// Any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace muster::worker {

struct ThreadFacts {
  pid_t id = 0;
  std::string name;
  char state = '?';
  double cpu_seconds = 0;
  std::string call;   // the system call that it is in: "futex", "call 444"; empty: none, or unknown
  std::string place;  // where the kernel keeps it waiting; empty: unknown
};

struct ProcessFacts {
  pid_t pid = 0;
  std::string program;  // the name of its executable file
  bool is_python = false;
  std::vector<ThreadFacts> threads;  // the main one first, at most 64
  size_t thread_count = 0;
};

// The process that does a rank's work: follows launchers and shells that only wait for their child
// down to the first process that does more.
pid_t WorkingProcess(pid_t rank);
ProcessFacts ReadProcessFacts(pid_t process);
// Its threads by the numbers that they know of themselves, in their own PID namespace.
std::map<pid_t, pid_t> ThreadsByOwnNumber(pid_t process);
// "computes", "waits in futex", "is stopped by a signal", "is stuck in the kernel in nfs_wait"
std::string DoingText(const ThreadFacts& thread);

}  // namespace muster::worker
