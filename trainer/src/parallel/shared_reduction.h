// Collectives through shared memory between the processes of one machine: about ten microseconds,
// compared to hundreds over sockets. Without LibTorch.
//
// Each rank has two slots that only it writes; it announces a filled slot by its sequence number
// and reads the others' slots. Two slots are enough: a rank that announces call n has finished
// reading call n - 1, so the slot of call n - 2 has no readers left. All ranks must make the same
// calls in the same order, from one thread at a time; SharedCalls checks that. Sums are in rank
// order, so that all ranks get the same bits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "parallel/shared_memory.h"

namespace muster {

enum class SharedOperation { sum, max, min };

class SharedReduction {
 public:
  static constexpr int kRanksMax = 64;
  static constexpr size_t kSlotBytes = 512 << 10;

  // How long to wait for the other ranks, and how to detect that waiting is pointless: `trouble` is
  // called every few milliseconds of waiting and returns a reason, or "" to keep waiting.
  struct Patience {
    std::chrono::milliseconds timeout;
    std::function<std::string()> trouble;
  };

  // `memory`, of this size and initially zero, is shared by all ranks.
  static size_t memory_bytes(int world_size);
  SharedReduction(std::unique_ptr<SharedMemory> memory, int rank, int world_size,
                  Patience patience);

  // Replaces `values` with their reduction over all ranks. Any count, the same on all ranks.
  // Maximum and minimum propagate NaN. Throws std::runtime_error if a rank is lost or late; the
  // object is then unusable.
  template <typename T>
  void all_reduce(T* values, size_t count, SharedOperation operation);
  // Replaces the `bytes` bytes at `data` with those of `root`.
  void broadcast(void* data, size_t bytes, int root);

 private:
  struct Header;

  std::byte* slot(int rank) const;
  std::byte* begin_call();
  void end_call();
  void wait_for(int rank);

  const std::unique_ptr<SharedMemory> memory_;
  Header& header_;
  const int rank_, world_size_;
  const Patience patience_;
  uint32_t call_ = 0;
};

}  // namespace muster
