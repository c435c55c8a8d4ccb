// POSIX shared memory; see shared_memory.h.
#include "parallel/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

#include "base/files.h"

namespace muster {
namespace {

std::string random_name() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) return "";
  return "/muster-" + std::to_string(::getpid()) + "-" + std::to_string(number);
}

// Null on failure.
void* map(int fd, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

std::unique_ptr<SharedMemory> SharedMemory::create(size_t bytes) {
  const std::string name = random_name();
  if (name.empty()) return nullptr;
  const FileDescriptor fd(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) return nullptr;
  // Allocate now: otherwise a full file system would raise SIGBUS later.
  const bool has_room = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) == 0;
  void* memory = has_room ? map(fd.get(), bytes) : nullptr;
  if (memory == nullptr) {
    ::shm_unlink(name.c_str());
    return nullptr;
  }
  return std::unique_ptr<SharedMemory>(new SharedMemory(name, memory, bytes, /*linked=*/true));
}

std::unique_ptr<SharedMemory> SharedMemory::open(const std::string& name, size_t bytes) {
  if (name.empty()) return nullptr;
  const FileDescriptor fd(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (!fd.valid()) return nullptr;
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || status.st_size != static_cast<off_t>(bytes)) {
    return nullptr;
  }
  void* memory = map(fd.get(), bytes);
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<SharedMemory>(new SharedMemory(name, memory, bytes, /*linked=*/false));
}

SharedMemory::~SharedMemory() {
  unlink();
  ::munmap(data_, bytes_);
}

void SharedMemory::unlink() {
  if (linked_) ::shm_unlink(name_.c_str());
  linked_ = false;
}

}  // namespace muster
