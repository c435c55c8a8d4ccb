// Event files that ranks have open for writing, wherever they lie: OUTPUT_DIR/runs of a Trainer, a
// directory that only the program knows. Reads the names of descriptors in /proc; never opens a
// file. Any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace muster::worker {

struct OpenEventFile {
  std::string path;  // as its process sees it
  uint64_t inode = 0;
  int64_t pid = 0;
  int64_t process_started_us = 0;  // Unix time; an older file does not belong to the attempt alone
};

// Event files that these processes and their descendants have open. Limits the processes and descriptors
// that it reads.
std::vector<OpenEventFile> FindOpenEventFiles(const std::set<int64_t>& pids);

}  // namespace muster::worker
