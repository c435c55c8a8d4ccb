// A file that is read at places. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"
#include "checkpoint/stored_zip.h"

namespace muster {

class SourceFile {
 public:
  // Throws CheckpointError if it cannot be opened or is not a regular file; a pipe does not block.
  explicit SourceFile(std::string path);

  const std::string& path() const { return path_; }
  const FileDescriptor& fd() const { return fd_; }
  uint64_t size() const { return size_; }  // when it was opened

  // Refers to this object.
  ByteSource bytes() const;

 private:
  std::string path_;
  FileDescriptor fd_;
  uint64_t size_ = 0;
};

}  // namespace muster
