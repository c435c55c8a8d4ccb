// Reads /proc about one process, with one open, one read and one close per file. Values are
// snapshots; a process may vanish at any moment, and its pid may be reused, which the start time
// reveals. Reads are bounded. One thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/files/files.h"

namespace muster::worker {

struct ProcessUse {
  pid_t pid = 0;
  pid_t ppid = 0;
  pid_t session = 0;
  uint64_t start_ticks = 0;  // since boot: (pid, start_ticks) identifies a process
  bool is_zombie = false;
  uint32_t threads = 0;
  uint64_t resident_pages = 0;
  // Since it started; "waited": of children that have ended and that it has waited for.
  uint64_t cpu_ticks = 0;
  uint64_t waited_cpu_ticks = 0;
  uint64_t major_faults = 0;
  uint64_t waited_major_faults = 0;
  // Include those of the children that it has waited for. 0 where the kernel denies access.
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
};

class ProcessFiles {
 public:
  // `root`: tests pass their own tree.
  explicit ProcessFiles(std::string root = "/proc") : path_(std::move(root)) {}

  // Ascending, at most `max`. Reuses the vector's memory.
  void ListPids(size_t max, std::vector<pid_t>* pids);
  // False if there is no such process.
  bool ReadStat(pid_t pid, ProcessUse* use) const;
  void ReadIo(pid_t pid, ProcessUse* use) const;
  // Its line of each cgroup hierarchy; empty if it is gone.
  std::string ReadCgroups(pid_t pid) const;
  // The numbers N of open files `prefix`N among its first `max` descriptors.
  std::vector<uint32_t> OpenNumbers(pid_t pid, const std::string& prefix, size_t max) const;

 private:
  // The file's first bytes, zero-terminated. False if the file is missing or empty.
  bool ReadText(pid_t pid, const char* name, char* buffer, size_t size) const;

  const std::string path_;
  common::UniqueFd root_;  // opened by ListPids
};

}  // namespace muster::worker
