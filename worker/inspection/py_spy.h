// Finds py-spy, which is not part of Muster; `pip install muster-train[stacks]` installs it. May access
// directories that a job chose, so call it on a job's thread.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster::worker {

struct PySpy {
  std::string path;     // empty: there is none for this process
  std::string problem;  // why not, and the fix
};

// The worker's: on its PATH, or beside it. Otherwise the process's, beside its interpreter or on its
// PATH, if a user who can write there gains nothing: the process must have every right of the worker.
PySpy FindPySpy(pid_t process);

}  // namespace muster::worker
