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

// First looks on the worker's PATH and next to the worker. Otherwise next to the process's interpreter or on
// its PATH, but only if a user who can write there gains nothing by it: the process must have every right of
// the worker.
PySpy FindPySpy(pid_t process);

}  // namespace muster::worker
