// Memory shared by the processes of one machine. Without LibTorch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace muster {

class SharedMemory {
 public:
  // Creates it, zero-filled; other processes open it by name(). Null if there is not enough space.
  static std::unique_ptr<SharedMemory> create(size_t bytes);
  // Null if there is no such memory of this size here: a different machine or container.
  static std::unique_ptr<SharedMemory> open(const std::string& name, size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const std::string& name() const { return name_; }
  void* data() const { return data_; }
  // Removes the name, after all have opened it; the memory lives until the last process exits.
  void unlink();

 private:
  SharedMemory(std::string name, void* data, size_t bytes, bool linked)
      : name_(std::move(name)), data_(data), bytes_(bytes), linked_(linked) {}

  const std::string name_;
  void* const data_;
  const size_t bytes_;
  bool linked_;
};

}  // namespace muster
