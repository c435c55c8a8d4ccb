// POSIX shared memory and futexes; see shared_reduction.h.
#include "parallel/shared_reduction.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>

namespace muster {
namespace {

constexpr uint64_t kMagic = 0x6d75737465723031;
constexpr int kRanksMax = 64;
constexpr int kSpins = 2'000;  // some ten microseconds
constexpr std::chrono::milliseconds kPatienceSlice(20);

// Not private to the process: the word lies in shared memory.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds time) {
  const timespec limit = {time.count() / 1000, (time.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, kRanksMax, nullptr, nullptr, 0);
}

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

std::string random_name() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) return "";
  return "/muster-" + std::to_string(::getpid()) + "-" + std::to_string(number);
}

// Blocks of a constant length, which the compiler turns into vector instructions.
template <typename T, typename Combine>
void combine_into(T* into, const T* from, size_t count, const Combine& combine) {
  constexpr size_t kBlock = 64 / sizeof(T);
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (size_t j = 0; j < kBlock; ++j) into[i + j] = combine(into[i + j], from[i + j]);
  }
  for (; i < count; ++i) into[i] = combine(into[i], from[i]);
}

template <typename T>
void reduce_into(T* into, const T* from, size_t count, SharedOperation operation) {
  switch (operation) {
    case SharedOperation::sum:
      return combine_into(into, from, count, [](T a, T b) { return static_cast<T>(a + b); });
    case SharedOperation::max:
      return combine_into(into, from, count, [](T a, T b) { return a < b ? b : a; });
    case SharedOperation::min:
      return combine_into(into, from, count, [](T a, T b) { return b < a ? b : a; });
  }
}

}  // namespace

// At the start of the memory; the slots follow. A line of the cache for each rank's word.
struct SharedReduction::Header {
  std::atomic<uint64_t> magic;
  struct alignas(64) Arrival {
    std::atomic<uint32_t> call;      // the newest call whose slot is filled
    std::atomic<uint32_t> sleepers;  // ranks that wait for it in the kernel
  } arrivals[kRanksMax];
};

namespace {

size_t memory_bytes(size_t header_bytes, int world_size) {
  return header_bytes + 2 * static_cast<size_t>(world_size) * SharedReduction::kSlotBytes;
}

void* map(int fd, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

SharedReduction::SharedReduction(std::string name, void* memory, int rank, int world_size,
                                 Patience patience)
    : name_(std::move(name)),
      header_(static_cast<Header*>(memory)),
      rank_(rank),
      world_size_(world_size),
      patience_(std::move(patience)) {}

std::unique_ptr<SharedReduction> SharedReduction::create(int world_size, Patience patience) {
  const std::string name = random_name();
  if (name.empty() || world_size > kRanksMax) return nullptr;
  const int fd = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  const size_t bytes = memory_bytes(sizeof(Header), world_size);
  // Room is taken now: a full file system would raise SIGBUS later.
  void* memory = nullptr;
  if (::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0) {
    memory = map(fd, bytes);
  } else {
    ::close(fd);
  }
  if (memory == nullptr) {
    ::shm_unlink(name.c_str());
    return nullptr;
  }
  auto* header = new (memory) Header{};
  header->magic.store(kMagic, std::memory_order_release);
  std::unique_ptr<SharedReduction> made(
      new SharedReduction(name, memory, 0, world_size, std::move(patience)));
  made->linked_ = true;
  return made;
}

std::unique_ptr<SharedReduction> SharedReduction::open(const std::string& name, int rank,
                                                       int world_size, Patience patience) {
  if (name.empty()) return nullptr;
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  struct stat status {};
  const size_t bytes = memory_bytes(sizeof(Header), world_size);
  if (::fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(bytes)) {
    ::close(fd);
    return nullptr;
  }
  void* memory = map(fd, bytes);
  if (memory == nullptr) return nullptr;
  if (static_cast<Header*>(memory)->magic.load(std::memory_order_acquire) != kMagic) {
    ::munmap(memory, bytes);
    return nullptr;
  }
  return std::unique_ptr<SharedReduction>(
      new SharedReduction(name, memory, rank, world_size, std::move(patience)));
}

SharedReduction::~SharedReduction() {
  unlink();
  ::munmap(header_, memory_bytes(sizeof(Header), world_size_));
}

void SharedReduction::unlink() {
  if (linked_) ::shm_unlink(name_.c_str());
  linked_ = false;
}

std::byte* SharedReduction::slot(int rank) const {
  const size_t index = static_cast<size_t>(rank) * 2 + call_ % 2;
  return reinterpret_cast<std::byte*>(header_ + 1) + index * kSlotBytes;
}

std::byte* SharedReduction::begin_call() {
  ++call_;
  return slot(rank_);
}

void SharedReduction::end_call() {
  Header::Arrival& own = header_->arrivals[rank_];
  // Both in one order for all: either a sleeper sees the number, or this rank sees the sleeper.
  own.call.store(call_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(own.call);
}

void SharedReduction::wait_for(int rank) {
  Header::Arrival& other = header_->arrivals[rank];
  const auto has_come = [&] {
    return static_cast<int32_t>(other.call.load(std::memory_order_acquire) - call_) >= 0;
  };
  for (int i = 0; i < kSpins; ++i) {
    if (has_come()) return;
    pause_processor();
  }
  const auto deadline = std::chrono::steady_clock::now() + patience_.timeout;
  while (!has_come()) {
    other.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = other.call.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(seen - call_) < 0) futex_wait(other.call, seen, kPatienceSlice);
    other.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (has_come()) return;
    const std::string where = "rank " + std::to_string(rank_) + " waits for rank " +
                              std::to_string(rank) + " in a collective: ";
    if (patience_.lost && patience_.lost()) {
      throw std::runtime_error(where + "Connection closed by peer");
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(where + "Timed out after " +
                               std::to_string(patience_.timeout.count()) + " ms");
    }
  }
}

template <typename T>
void SharedReduction::all_reduce(T* values, size_t count, SharedOperation operation) {
  constexpr size_t kPerCall = kSlotBytes / sizeof(T);
  while (count > 0) {
    const size_t now = std::min(count, kPerCall);
    std::memcpy(begin_call(), values, now * sizeof(T));
    end_call();
    for (int rank = 0; rank < world_size_; ++rank) {
      if (rank != rank_) wait_for(rank);
      const auto* theirs = reinterpret_cast<const T*>(slot(rank));
      if (rank == 0) {
        std::memcpy(values, theirs, now * sizeof(T));
      } else {
        reduce_into(values, theirs, now, operation);
      }
    }
    values += now;
    count -= now;
  }
}

void SharedReduction::broadcast(void* data, size_t bytes, int root) {
  auto* place = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const size_t now = std::min(bytes, kSlotBytes);
    std::byte* own = begin_call();
    if (rank_ == root) std::memcpy(own, place, now);
    end_call();
    // All wait for all: a slot may be filled again two calls later.
    for (int rank = 0; rank < world_size_; ++rank) {
      if (rank != rank_) wait_for(rank);
    }
    if (rank_ != root) std::memcpy(place, slot(root), now);
    place += now;
    bytes -= now;
  }
}

template void SharedReduction::all_reduce(float*, size_t, SharedOperation);
template void SharedReduction::all_reduce(double*, size_t, SharedOperation);
template void SharedReduction::all_reduce(int32_t*, size_t, SharedOperation);
template void SharedReduction::all_reduce(int64_t*, size_t, SharedOperation);

}  // namespace muster
