// A file as memory, read-only: samples are read without a system call and without a copy in the
// heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace muster {

enum class AccessPattern { normal, random, sequential };  // a hint to the system's read-ahead

// Copies share one mapping, which ends with the last of them. Any thread.
//
// A file must not get shorter while it is mapped: reading behind its new end ends the process with
// SIGBUS. check_unchanged() finds that, and any rewriting, before the read.
class MemoryMappedFile {
 public:
  // Throws DataError with the path and the system's reason. An empty file is mapped as no bytes.
  explicit MemoryMappedFile(const std::string& path, AccessPattern pattern = AccessPattern::normal);

  const std::byte* data() const { return data_; }  // aligned to a page; nullptr when empty
  int64_t size() const { return size_; }           // bytes
  const std::string& path() const;

  // Throws DataError when the file's length or time of modification is no longer that of the
  // opening. Costs about 0.3 µs (one fstat). A file that was replaced by a new one under its name
  // stays readable here as it was.
  void check_unchanged() const;

  // The bytes [offset, offset + count). Throws DataError naming the file when they do not all lie
  // inside, or as check_unchanged().
  const std::byte* read(int64_t offset, int64_t count) const;

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace muster
