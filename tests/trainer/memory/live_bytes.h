// Counts the bytes that LibTorch holds on the CPU, with an allocator that wraps the default one.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace muster {

// One at a time, for the whole process. Counts only what is allocated while it lives; tensors
// allocated then may outlive it.
class LiveBytes {
 public:
  LiveBytes() { c10::SetCPUAllocator(&allocator(), 100); }
  ~LiveBytes() { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 100); }
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;

  static int64_t now() { return live(); }
  static int64_t peak() { return highest(); }
  static void forget_peak() { highest() = live().load(); }

 private:
  // In front of each block, with its alignment: its size.
  static constexpr size_t kHead = 64;
  class Counting : public c10::Allocator {
   public:
    c10::DataPtr allocate(size_t bytes) override {
      auto* head = static_cast<char*>(c10::GetDefaultCPUAllocator()->raw_allocate(bytes + kHead));
      std::memcpy(head, &bytes, sizeof(bytes));
      live() += static_cast<int64_t>(bytes);
      highest() = std::max(highest().load(), live().load());
      return {head + kHead, head + kHead, &release, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* target, const void* source, size_t bytes) const override {
      default_copy_data(target, source, bytes);
    }
  };
  static void release(void* data) {
    char* head = static_cast<char*>(data) - kHead;
    size_t bytes = 0;
    std::memcpy(&bytes, head, sizeof(bytes));
    live() -= static_cast<int64_t>(bytes);
    c10::GetDefaultCPUAllocator()->raw_deallocate(head);
  }
  static Counting& allocator() {
    static Counting counting;
    return counting;
  }
  static std::atomic<int64_t>& live() {
    static std::atomic<int64_t> bytes = 0;
    return bytes;
  }
  static std::atomic<int64_t>& highest() {
    static std::atomic<int64_t> bytes = 0;
    return bytes;
  }
};

}  // namespace muster
