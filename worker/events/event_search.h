// Finds where TensorBoard event files of an attempt may appear, and which exist. Accesses the job's
// paths, so it may block: call it only on a job's thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "worker/base/paths.h"

namespace muster::worker {

struct TailRoot {
  std::string path;
  std::string prefix;   // prepended to names relative to path: "runs/"
  bool shared = false;  // other programs' files may also be here or appear here
};

// The attempt's own directory, and those in its working directory.
std::vector<TailRoot> EventRoots(const Paths& paths, const AttemptKey& key,
                                 const v1::LaunchAttempt& launch);
// True if a file may appear in a root that both share.
bool Overlap(const std::vector<TailRoot>& one, const std::vector<TailRoot>& other);

// Identifies a file whatever its name: an inode number alone may be reused for the next file.
struct FileId {
  uint64_t inode = 0;
  int64_t born_us = 0;  // 0: the file system does not report it
  std::string path;     // only in that case
  auto operator<=>(const FileId&) const = default;
};

struct EventFile {
  FileId id;
  std::string path;
  std::string source;  // the root's prefix and the name relative to it
  bool shared = false;
  uint64_t size = 0;
  bool held = false;  // a rank has it open for writing
};

inline constexpr size_t kSourceBytesMax = 500;  // of the coordinator's 512: see event_tailer.cc
// Whether the file's names may be sent.
bool IsSayable(const EventFile& file);
// Fills in id and size. False: it is not a regular file.
bool Look(EventFile* file);

struct SearchBounds {
  // limit: event files: entries of directories looked at for a job's existing event files; only the attempt's own
  // directory is read
  size_t entries = 20'000;  // of directories
  int64_t until_mono_ms = INT64_MAX;
  // Of programs rather than of people: .git, .venv, whose files are many.
  bool hidden_directories = true;
};

// False: a bound was reached, so files may be missing.
bool FindEventFiles(const std::vector<TailRoot>& roots, SearchBounds bounds,
                    const std::function<void(EventFile)>& found);

}  // namespace muster::worker
