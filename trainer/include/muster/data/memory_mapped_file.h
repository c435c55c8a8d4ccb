// A read-only memory-mapped file: samples are read without a system call and without a heap copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace muster {

enum class AccessPattern { normal, random, sequential };  // a hint for the kernel's read-ahead

// Copies share one mapping, which is unmapped with the last of them. Any thread.
//
// The file must not shrink while it is mapped: reading past its new end kills the process with
// SIGBUS. check_unchanged() detects that, and any rewrite, before the read.
class MemoryMappedFile {
 public:
  // Throws DataError with the path and the system error. An empty file maps to zero bytes.
  explicit MemoryMappedFile(const std::string& path, AccessPattern pattern = AccessPattern::normal);

  const std::byte* data() const { return data_; }  // page-aligned; nullptr if empty
  int64_t size() const { return size_; }           // bytes
  const std::string& path() const;

  // Throws DataError if the file's length or modification time changed since it was opened. Costs
  // about 0.3 µs (one fstat). If the file's name was replaced by a new file, the mapping still
  // shows the old one.
  void check_unchanged() const;

  // The bytes [offset, offset + count). Throws DataError naming the file if they are not all inside
  // it, and as check_unchanged() does.
  const std::byte* read(int64_t offset, int64_t count) const;

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace muster
