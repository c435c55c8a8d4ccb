// Slots and futexes; see shared_reduction.h.
#include "parallel/shared_reduction.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace muster {
namespace {

constexpr int kSpins = 2'000;  // about ten microseconds
constexpr std::chrono::milliseconds kPatienceSlice(20);

// Not a process-private futex: the word is in shared memory.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds time) {
  const timespec limit = {time.count() / 1000, (time.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, SharedReduction::kRanksMax, nullptr, nullptr, 0);
}

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Blocks of constant length, which the compiler vectorizes.
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
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

template <typename T>
void reduce_into(T* into, const T* from, size_t count, SharedOperation operation) {
  switch (operation) {
    case SharedOperation::sum:
      return combine_into(into, from, count, [](T a, T b) { return static_cast<T>(a + b); });
    case SharedOperation::max:
      return combine_into(into, from, count, [](T a, T b) { return a < b || is_nan(b) ? b : a; });
    case SharedOperation::min:
      return combine_into(into, from, count, [](T a, T b) { return b < a || is_nan(b) ? b : a; });
  }
}

}  // namespace

// At the start of the memory, before the slots. Each rank's word has its own cache line.
struct SharedReduction::Header {
  struct alignas(64) Arrival {
    std::atomic<uint32_t> call;      // the newest call whose slot is filled
    std::atomic<uint32_t> sleepers;  // ranks waiting for it in the kernel
  } arrivals[kRanksMax];
};

size_t SharedReduction::memory_bytes(int world_size) {
  return sizeof(Header) + 2 * static_cast<size_t>(world_size) * kSlotBytes;
}

SharedReduction::SharedReduction(std::unique_ptr<SharedMemory> memory, int rank, int world_size,
                                 Patience patience)
    : memory_(std::move(memory)),
      header_(*static_cast<Header*>(memory_->data())),
      rank_(rank),
      world_size_(world_size),
      patience_(std::move(patience)) {}

std::byte* SharedReduction::slot(int rank) const {
  const size_t index = static_cast<size_t>(rank) * 2 + call_ % 2;
  return reinterpret_cast<std::byte*>(&header_ + 1) + index * kSlotBytes;
}

std::byte* SharedReduction::begin_call() {
  ++call_;
  return slot(rank_);
}

void SharedReduction::end_call() {
  Header::Arrival& own = header_.arrivals[rank_];
  // Sequentially consistent: either a sleeper sees the number, or this rank sees the sleeper.
  own.call.store(call_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(own.call);
}

void SharedReduction::wait_for(int rank) {
  Header::Arrival& other = header_.arrivals[rank];
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
    const std::string trouble = patience_.trouble ? patience_.trouble() : "";
    if (!trouble.empty()) throw std::runtime_error(where + trouble);
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
    // Every rank waits for every other, because a slot may be refilled two calls later.
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
