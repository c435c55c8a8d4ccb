// A piece of memory that the processes of one machine have in common. Without LibTorch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace muster {

class SharedMemory {
 public:
  // Makes it, filled with zeros; the others open it by name(). Null when the machine has no room.
  static std::unique_ptr<SharedMemory> create(size_t bytes);
  // Null when there is no such memory of this size here: another machine, another container.
  static std::unique_ptr<SharedMemory> open(const std::string& name, size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const std::string& name() const { return name_; }
  void* data() const { return data_; }
  // Removes the name; the memory lives until the last process is gone. Once all have opened it.
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
