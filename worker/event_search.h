// Where TensorBoard event files of an attempt may appear, and which are there. Touches the job's
// paths, so it may block: on a job's thread only.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "worker/paths.h"

namespace muster::worker {

struct TailRoot {
  std::string path;
  std::string prefix;   // put before names relative to path: "runs/"
  bool shared = false;  // also other programs' files may lie and appear here
};

// The attempt's own directory, and those below its working directory.
std::vector<TailRoot> EventRoots(const Paths& paths, const AttemptKey& key,
                                 const v1::LaunchAttempt& launch);
// A file may appear in a shared root of both.
bool Overlap(const std::vector<TailRoot>& one, const std::vector<TailRoot>& other);

// Names a file whatever it is called: a number alone may be used again for the next file.
struct FileId {
  uint64_t inode = 0;
  int64_t born_us = 0;  // 0: the file system does not tell
  std::string path;     // only then
  auto operator<=>(const FileId&) const = default;
};

struct EventFile {
  FileId id;
  std::string path;
  std::string source;  // the root's prefix and the name relative to it
  bool shared = false;
  uint64_t size = 0;
};

struct SearchBounds {
  size_t entries = 20'000;  // of directories
  int64_t until_mono_ms = INT64_MAX;
};

// False: a bound was reached, so files may be missing.
bool FindEventFiles(const std::vector<TailRoot>& roots, SearchBounds bounds,
                    const std::function<void(EventFile)>& found);

}  // namespace muster::worker
