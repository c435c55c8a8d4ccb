// Compares, through shared memory and before data moves, what the ranks of one machine call: ranks
// that call different collectives would hang, crash, or sum unrelated values. Without LibTorch.
//
// Each rank writes its call number n of the group, then reads the others' call number n. If the
// calls of two ranks differ, at least one of them sees it, whatever the interleaving, and does not
// start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/shared_memory.h"

namespace muster {

class SharedCalls {
 public:
  static constexpr int kRanksMax = 64;
  // A rank may be this many asynchronous calls ahead of another; beyond that, calls are not
  // compared.
  static constexpr uint64_t kKept = 128;

  // `memory`, of this size and initially zero, is shared by all ranks.
  static size_t memory_bytes(int world_size);
  SharedCalls(std::unique_ptr<SharedMemory> memory, int rank, int world_size);

  // Records this rank's next call. `call` must be equal on all ranks; `name` is only for messages:
  // the part of the program that it belongs to. Long texts are truncated. If a rank that has
  // already arrived calls something else, returns what each rank calls ("" if unknown), otherwise
  // an empty list. One thread at a time, in the order of the group's collectives.
  std::vector<std::string> announce(std::string_view call, std::string_view name);
  uint64_t number() const { return number_; }  // of the last call announced, from 1

  // Tells all ranks that the group has failed; keeps the first reason. Any thread.
  void fail(std::string_view reason);
  // "" while the group has not failed on any rank. Any thread.
  std::string failure() const;

 private:
  struct Rank;
  struct Board;

  // Whether a rank's call with the current number can be read.
  bool has_entry(const Rank& rank) const;
  std::vector<std::string> all_calls() const;

  const std::unique_ptr<SharedMemory> memory_;
  Board& board_;
  const int rank_, world_size_;
  uint64_t number_ = 0;
};

}  // namespace muster
