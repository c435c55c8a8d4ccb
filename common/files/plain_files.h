// The few file operations that the shim needs too: no abseil. Any thread. Errors are errno values,
// never messages; what has messages is in common/files/files.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::common {

// Reads a whole file. False with errno set; an unreadable file leaves `content` empty.
bool ReadSmallFile(const std::string& path, std::string* content, size_t max_bytes = 64 << 20);
bool ReadAllFd(int fd, std::string* content, size_t max_bytes);
bool WriteAllFd(int fd, std::string_view content);
// One open and one write, for control files in /sys and /proc. False with errno set.
bool WriteControlFile(const std::string& path, std::string_view content);
// How a file gets new content so that readers never see half of it: a temporary file is written and
// renamed. All code that has the whole content in memory replaces files this way.
struct Replacing {
  std::string temporary;  // its path, in the same directory
  unsigned mode = 0600;   // minus the umask
  bool is_durable =
      true;  // outlives the machine, not only the process: file and directory are synced
  bool must_be_new = false;  // EEXIST if the name is taken
  bool is_reserved =
      false;  // the temporary file may exist already; its blocks are reused, and kept for later
};
// The step that failed, with errno set, or kDone. Unless reserved, no temporary file is left.
enum class ReplaceStep { kCreate, kWrite, kSync, kPlace, kSyncDirectory, kDone };
ReplaceStep ReplaceFile(const std::string& path, std::string_view content, const Replacing& how);
// With "<path>.tmp", as reserved. False with errno set.
bool ReplaceFile(const std::string& path, std::string_view content, bool durable);

// Creates `path` with room for `bytes`, so that a later ReplaceFile does not fail on a full disk. Pass "<final
// name>.tmp" as `path`. Best effort.
void ReserveFile(const std::string& path, int64_t bytes);

}  // namespace muster::common
