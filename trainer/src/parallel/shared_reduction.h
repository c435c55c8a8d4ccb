// Collectives through shared memory between the processes of one machine: some ten microseconds
// where sockets cost hundreds. Without LibTorch.
//
// Each rank has two slots that it alone writes; a rank announces a filled slot by its sequence
// number and reads the others'. Two slots are enough: a rank that announces call n has finished
// reading call n - 1, so a slot of call n - 2 has no reader left. All ranks make the same calls in
// the same order, from one thread at a time; that they do is not looked at here but by SharedCalls.
// Sums are taken in the order of the ranks, so that all
// get the same bits.
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

  // How long to wait for the other ranks, and how to learn that waiting is in vain: `trouble` is
  // asked for a reason every some milliseconds of waiting; "": there is none.
  struct Patience {
    std::chrono::milliseconds timeout;
    std::function<std::string()> trouble;
  };

  // `memory`, of this size and filled with zeros at first, is the same on all ranks.
  static size_t memory_bytes(int world_size);
  SharedReduction(std::unique_ptr<SharedMemory> memory, int rank, int world_size,
                  Patience patience);

  // Replaces `values` by the reduction over all ranks. Any count, the same on all of them. The
  // maximum and the minimum of NaN and a number are NaN. Throws std::runtime_error when a rank is
  // lost or late; the object cannot be used afterwards.
  template <typename T>
  void all_reduce(T* values, size_t count, SharedOperation operation);
  // Replaces `bytes` bytes at `data` by those of `root`.
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
