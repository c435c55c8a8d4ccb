// A file that grows by whole records and stays readable if the disk fills up. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/files.h"

namespace muster {

// Buffers records in memory; flush() writes them with one write(2). A partial write is truncated
// and its records are dropped: the file never ends inside a record, and later records stay
// readable. Throws muster::Error with the path and errno's text.
class AppendFile {
 public:
  // Creates the file or opens it for appending.
  explicit AppendFile(const std::string& path);

  // Append the next record here.
  std::string& buffer() { return buffer_; }
  // Also flushes if the buffer is large.
  void record_is_complete();
  void flush();
  // flush(), fsync and close.
  void finish();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor fd_;
  int64_t size_ = 0;
  std::string buffer_;
};

// mkdir -p, as muster::Error; returns the path.
std::string make_tracker_directory(const std::string& path);

// Throws muster::Error("cannot <action> <path>: <errno's text>").
[[noreturn]] void throw_tracker_errno(const std::string& action, const std::string& path);

}  // namespace muster
