// mmap, with errors for files that change while mapped; see memory_mapped_file.h.
#include "muster/data/memory_mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

[[noreturn]] void throw_system(const char* action, const std::string& path) {
  throw DataError(std::string("cannot ") + action + " the data file " + path + ": " +
                  std::strerror(errno));
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_system("examine", path);
  return status;
}

}  // namespace

struct MemoryMappedFile::Mapping {
  std::string path;
  FileDescriptor fd;  // stays open to detect changes
  struct stat opened {};
  void* memory = nullptr;

  ~Mapping() {
    if (memory != nullptr) ::munmap(memory, static_cast<size_t>(opened.st_size));
  }
};

MemoryMappedFile::MemoryMappedFile(const std::string& path, AccessPattern pattern) {
  auto mapping = std::make_shared<Mapping>();
  mapping->path = path;
  mapping->fd = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!mapping->fd.valid()) throw_system("open", path);
  mapping->opened = status_of(mapping->fd.get(), path);
  if (!S_ISREG(mapping->opened.st_mode)) {
    throw DataError("cannot map " + path + ": it is not a regular file");
  }
  size_ = mapping->opened.st_size;
  if (size_ > 0) {
    const auto bytes = static_cast<size_t>(size_);
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, mapping->fd.get(), 0);
    if (memory == MAP_FAILED) throw_system("map", path);
    mapping->memory = memory;
    // Only a hint: the result is the same if the kernel ignores it.
    if (pattern == AccessPattern::random) ::madvise(memory, bytes, MADV_RANDOM);
    if (pattern == AccessPattern::sequential) ::madvise(memory, bytes, MADV_SEQUENTIAL);
    data_ = static_cast<const std::byte*>(memory);
  }
  mapping_ = std::move(mapping);
}

const std::string& MemoryMappedFile::path() const { return mapping_->path; }

void MemoryMappedFile::check_unchanged() const {
  const struct stat now = status_of(mapping_->fd.get(), mapping_->path);
  if (now.st_size != size_) {
    throw DataError("the data file " + mapping_->path + " had " + std::to_string(size_) +
                    " bytes when it was opened and has " + std::to_string(now.st_size) +
                    " now: it must not change while it is read");
  }
  const timespec& then = mapping_->opened.st_mtim;
  if (now.st_mtim.tv_sec != then.tv_sec || now.st_mtim.tv_nsec != then.tv_nsec) {
    throw DataError("the data file " + mapping_->path +
                    " was modified after it was opened: it must not change while it is read");
  }
}

const std::byte* MemoryMappedFile::read(int64_t offset, int64_t count) const {
  if (offset < 0 || count < 0 || count > size_ || offset > size_ - count) {
    throw DataError("the data file " + mapping_->path + " has no bytes " + std::to_string(offset) +
                    " to " + std::to_string(offset + count - 1) + ": it has " +
                    std::to_string(size_));
  }
  check_unchanged();
  return data_ + offset;
}

}  // namespace muster
