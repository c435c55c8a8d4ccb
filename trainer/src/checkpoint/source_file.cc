#include "checkpoint/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "muster/base/errors.h"

namespace muster {

SourceFile::SourceFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (!fd_.valid() || ::fstat(fd_.get(), &status) != 0) throw_errno("read", path_);
  if (!S_ISREG(status.st_mode))
    throw CheckpointError("cannot read " + path_ + ": it is not a regular file");
  size_ = static_cast<uint64_t>(status.st_size);
}

ByteSource SourceFile::bytes() const {
  return {size_, [this](uint64_t offset, char* into, size_t bytes) {
            read_at(fd_, path_, offset, into, bytes);
          }};
}

}  // namespace muster
