// Address ranges, and the allocators; see memory.h.
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace remote {
namespace {

constexpr size_t kBytes = size_t{16} << 30;  // of each device; only what is used takes memory
constexpr size_t kBlockMin = 512;
constexpr int kUnset = 0xff;  // as a floating-point number, a NaN

char* reserve(int protection) {
  void* const memory = ::mmap(nullptr, kBytes * kDevices, protection,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(memory != MAP_FAILED, "no address space for the device's memory");
  return static_cast<char*>(memory);
}

struct Ranges {
  char* const device = reserve(PROT_NONE);
  char* const window = reserve(PROT_READ | PROT_WRITE);
};
const Ranges& ranges() {
  static const auto* const only = new Ranges;
  return *only;
}

// -1: no device's.
int64_t offset_of(const void* address) {
  const char* const at = static_cast<const char*>(address);
  const char* const begin = ranges().device;
  return at < begin || at >= begin + kBytes * kDevices ? -1 : at - begin;
}

struct Block {
  char* address = nullptr;
  size_t bytes = 0;
  c10::StreamId stream = 0;
  c10::DeviceIndex device = 0;
  std::set<c10::StreamId> used_on;  // other streams
  bool is_unset = false;

  c10::Stream own_stream() const { return stream_of(device, stream); }
  void unset() {
    is_unset = true;
    enqueue(own_stream(),
            [place = window(address), size = bytes] { std::memset(place, kUnset, size); });
  }
};

struct Freed {
  Block* block;
  std::vector<MomentPtr> until;
};

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device = current_device();
    if (bytes == 0) return {nullptr, device};
    Block* const block = take(device.index(), std::bit_ceil(std::max(bytes, kBlockMin)));
    if (!block->is_unset) block->unset();
    block->is_unset = false;
    return {block->address, block, &free_block, device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    enqueue(current_stream(device_of(to).index()),
            [to = window(to), from = window(from), bytes] { std::memcpy(to, from, bytes); });
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    for (c10::DeviceIndex device = 0; device < kDevices; ++device) synchronize_device(device);
    const std::lock_guard lock(mutex_);
    reuse_freed();
    for (auto& [kind, blocks] : idle_) {
      for (Block* const block : blocks) {
        ::madvise(window(block->address), block->bytes, MADV_DONTNEED);
        block->is_unset = false;
        stats_.at(static_cast<size_t>(block->device)).reserved_bytes[0].decrease(block->bytes);
        returned_[{block->device, block->bytes}].push_back(block);
      }
    }
    idle_.clear();
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (data.get_deleter() != &free_block) return;  // not a block of this allocator
    const std::lock_guard lock(mutex_);
    auto* const block = static_cast<Block*>(data.get_context());
    if (stream.id() != block->stream) block->used_on.insert(stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    return stats_.at(static_cast<size_t>(device));
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    auto& stats = stats_.at(static_cast<size_t>(device));
    stats.allocated_bytes[0].reset_peak();
    stats.reserved_bytes[0].reset_peak();
  }
  std::pair<size_t, size_t> free_and_total(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    return {kBytes - fresh_.at(static_cast<size_t>(device)), kBytes};
  }
  // Not every LibTorch since 2.11 has this to override.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) {
    return free_and_total(device);
  }

 private:
  static void free_block(void* context);

  Block* take(c10::DeviceIndex device, size_t bytes) {
    const c10::StreamId stream = current_stream(device).id();
    const std::lock_guard lock(mutex_);
    reuse_freed();
    auto& stats = stats_.at(static_cast<size_t>(device));
    stats.allocated_bytes[0].increase(bytes);
    std::vector<Block*>& own = idle_[{device, stream, bytes}];
    if (!own.empty()) return pop(own);
    stats.reserved_bytes[0].increase(bytes);
    std::vector<Block*>& returned = returned_[{device, bytes}];
    if (!returned.empty()) {
      Block* const block = pop(returned);
      block->stream = stream;
      return block;
    }
    size_t& fresh = fresh_.at(static_cast<size_t>(device));
    TORCH_CHECK_WITH(OutOfMemoryError, fresh + bytes <= kBytes, "the device has no memory left");
    char* const address = ranges().device + kBytes * static_cast<size_t>(device) + fresh;
    fresh += bytes;
    return new Block{address, bytes, stream, device, {}, false};
  }
  static Block* pop(std::vector<Block*>& blocks) {
    Block* const block = blocks.back();
    blocks.pop_back();
    return block;
  }
  void give(Block* block) {
    const std::lock_guard lock(mutex_);
    stats_.at(static_cast<size_t>(block->device)).allocated_bytes[0].decrease(block->bytes);
    if (block->used_on.empty()) {
      block->unset();
      idle_[{block->device, block->stream, block->bytes}].push_back(block);
      return;
    }
    Freed freed{block, {}};
    for (const c10::StreamId stream : block->used_on) {
      freed.until.push_back(record(stream_of(block->device, stream)));
    }
    block->used_on.clear();
    freed_.push_back(std::move(freed));
  }
  void reuse_freed() {
    std::erase_if(freed_, [this](const Freed& freed) {
      const bool over = std::all_of(freed.until.begin(), freed.until.end(),
                                    [](const MomentPtr& moment) { return moment->reached(); });
      Block* const block = freed.block;
      if (over) idle_[{block->device, block->stream, block->bytes}].push_back(block);
      return over;
    });
  }

  std::mutex mutex_;
  std::map<std::tuple<c10::DeviceIndex, c10::StreamId, size_t>, std::vector<Block*>> idle_;
  std::map<std::pair<c10::DeviceIndex, size_t>, std::vector<Block*>> returned_;  // by emptyCache
  std::vector<Freed> freed_;  // other streams may still use them
  std::array<size_t, kDevices> fresh_{};
  std::array<c10::CachingDeviceAllocator::DeviceStats, kDevices> stats_{};
};

// Never destroyed: tensors may outlive static objects.
Allocator& allocator() {
  static auto* const only = new Allocator;
  return *only;
}

void Allocator::free_block(void* context) { allocator().give(static_cast<Block*>(context)); }

class Pinned final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;
    const size_t whole = (std::max(bytes, size_t{1}) + kAlignment - 1) / kAlignment * kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, whole);
    TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr, "no memory to pin");
    const std::lock_guard lock(mutex_);
    sizes_[static_cast<char*>(memory)] = whole;
    return {memory, memory, &free_memory, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool has(const char* address) {
    const std::lock_guard lock(mutex_);
    auto after = sizes_.upper_bound(const_cast<char*>(address));
    if (after == sizes_.begin()) return false;
    --after;
    return address < after->first + after->second;
  }
  static Pinned& only() {
    static auto* const pinned = new Pinned;
    return *pinned;
  }

 private:
  static void free_memory(void* memory) {
    const std::lock_guard lock(only().mutex_);
    only().sizes_.erase(static_cast<char*>(memory));
    std::free(memory);
  }

  std::mutex mutex_;
  std::map<char*, size_t> sizes_;
};

}  // namespace

void* window(const void* address) {
  if (address == nullptr) return nullptr;
  const int64_t offset = offset_of(address);
  TORCH_CHECK(offset >= 0, "an address of the host was given to the device");
  return ranges().window + offset;
}

c10::Device device_of(const void* address) {
  const int64_t offset = offset_of(address);
  TORCH_CHECK(offset >= 0, "the address belongs to no device of this kind");
  return {kType, static_cast<c10::DeviceIndex>(static_cast<size_t>(offset) / kBytes)};
}

c10::DeviceAllocator& device_allocator() { return allocator(); }
c10::Allocator& pinned_allocator() { return Pinned::only(); }
bool is_pinned(const void* address) {
  return Pinned::only().has(static_cast<const char*>(address));
}

}  // namespace remote
