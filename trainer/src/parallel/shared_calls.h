// What the ranks of one machine call, compared through shared memory before anything moves: ranks
// that call different collectives would wait for each other, crash, or add what does not belong
// together. Without LibTorch.
//
// Each rank writes down its call number n of the group, then looks at the others' number n. Of two
// ranks whose calls differ at least one sees it, whatever the race, and does not begin.
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
  // A rank may be ahead of another by so many calls that it started and did not wait for; what is
  // further behind is not compared.
  static constexpr uint64_t kKept = 128;

  // `memory`, of this size and filled with zeros at first, is the same on all ranks.
  static size_t memory_bytes(int world_size);
  SharedCalls(std::unique_ptr<SharedMemory> memory, int rank, int world_size);

  // This rank's next call. The ranks' `call` must be equal; `name` is only shown: what of the
  // program it belongs to. Long texts are cut. When a rank that is here already calls something
  // else: what each rank calls, "" where that is not known. Else nothing. One thread at a time, in
  // the order of the group's collectives.
  std::vector<std::string> announce(std::string_view call, std::string_view name);
  uint64_t number() const { return number_; }  // of the last announced, from 1

  // Lets all ranks know that the group has failed; the first one's reason stays. Any thread.
  void fail(std::string_view reason);
  // "" while the group has not failed on any rank. Any thread.
  std::string failure() const;

 private:
  struct Rank;
  struct Board;

  // Whether a rank's call of this number is there to be read.
  bool has_entry(const Rank& rank) const;
  std::vector<std::string> all_calls() const;

  const std::unique_ptr<SharedMemory> memory_;
  Board& board_;
  const int rank_, world_size_;
  uint64_t number_ = 0;
};

}  // namespace muster
