// Collectives through shared memory between the processes of one machine: some ten microseconds
// where sockets cost hundreds. Without LibTorch.
//
// Each rank has two slots that it alone writes; a rank announces a filled slot by its sequence
// number and reads the others'. Two slots are enough: a rank that announces call n has finished
// reading call n - 1, so a slot of call n - 2 has no reader left. All ranks make the same calls in
// the same order, from one thread at a time. Sums are taken in the order of the ranks, so that all
// get the same bits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace muster {

enum class SharedOperation { sum, max, min };

class SharedReduction {
 public:
  static constexpr size_t kSlotBytes = 512 << 10;

  // How long to wait for the other ranks, and how to learn that one is gone: `lost` is asked every
  // some milliseconds of waiting.
  struct Patience {
    std::chrono::milliseconds timeout;
    std::function<bool()> lost;
  };

  // Makes the memory; the others open it by name(). Null when the machine has no room for it.
  static std::unique_ptr<SharedReduction> create(int world_size, Patience patience);
  // Null when there is no such memory here: another machine, another container.
  static std::unique_ptr<SharedReduction> open(const std::string& name, int rank, int world_size,
                                               Patience patience);
  ~SharedReduction();
  SharedReduction(const SharedReduction&) = delete;
  SharedReduction& operator=(const SharedReduction&) = delete;

  const std::string& name() const { return name_; }
  // Removes the name; the memory lives until the last rank is gone. Once all ranks have opened it.
  void unlink();

  // Replaces `values` by the reduction over all ranks. Any count. Throws std::runtime_error when a
  // rank is lost or late; the object cannot be used afterwards.
  template <typename T>
  void all_reduce(T* values, size_t count, SharedOperation operation);
  // Replaces `bytes` bytes at `data` by those of `root`.
  void broadcast(void* data, size_t bytes, int root);

 private:
  struct Header;

  SharedReduction(std::string name, void* memory, int rank, int world_size, Patience patience);
  std::byte* slot(int rank) const;
  std::byte* begin_call();
  void end_call();
  void wait_for(int rank);

  std::string name_;
  Header* header_;
  const int rank_, world_size_;
  const Patience patience_;
  uint32_t call_ = 0;
  bool linked_ = false;
};

}  // namespace muster
