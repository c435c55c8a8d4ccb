// See shared_calls.h.
#include "parallel/shared_calls.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace muster {
namespace {

constexpr size_t kCallBytes = 64;
constexpr size_t kNameBytes = 192;
constexpr size_t kReasonBytes = 4'000;

void write(char* place, size_t bytes, std::string_view text) {
  const size_t size = std::min(text.size(), bytes - 1);
  std::memcpy(place, text.data(), size);
  place[size] = '\0';
}

// Written by another process, so it may lack the terminator.
std::string_view read(const char* place, size_t bytes) { return {place, ::strnlen(place, bytes)}; }

}  // namespace

struct SharedCalls::Rank {
  struct Entry {
    char call[kCallBytes];
    char name[kNameBytes];
  };
  alignas(64) std::atomic<uint64_t> calls;  // number of entries written
  Entry entries[kKept];                     // entry n is at n % kKept
};

struct SharedCalls::Board {
  enum : uint32_t { kNone, kBeingWritten, kWritten };
  std::atomic<uint32_t> failed;
  char reason[kReasonBytes];
  Rank ranks[1];  // one per rank; the memory extends beyond the struct
};

size_t SharedCalls::memory_bytes(int world_size) {
  return sizeof(Board) + static_cast<size_t>(world_size - 1) * sizeof(Rank);
}

SharedCalls::SharedCalls(std::unique_ptr<SharedMemory> memory, int rank, int world_size)
    : memory_(std::move(memory)),
      board_(*static_cast<Board*>(memory_->data())),
      rank_(rank),
      world_size_(world_size) {}

bool SharedCalls::has_entry(const Rank& rank) const {
  const uint64_t calls = rank.calls.load(std::memory_order_seq_cst);
  // The entry after the newest may be being overwritten.
  return calls >= number_ && calls - number_ + 1 < kKept;
}

std::vector<std::string> SharedCalls::announce(std::string_view call, std::string_view name) {
  Rank& own = board_.ranks[rank_];
  Rank::Entry& entry = own.entries[++number_ % kKept];
  write(entry.call, sizeof(entry.call), call);
  write(entry.name, sizeof(entry.name), name);
  // Sequentially consistent: of two ranks, at least one sees the other's call.
  own.calls.store(number_, std::memory_order_seq_cst);
  for (int rank = 0; rank < world_size_; ++rank) {
    const Rank& other = board_.ranks[rank];
    if (rank == rank_ || !has_entry(other)) continue;
    const Rank::Entry& theirs = other.entries[number_ % kKept];
    const bool differs = std::strncmp(theirs.call, entry.call, sizeof(entry.call)) != 0;
    if (differs && has_entry(other)) return all_calls();
  }
  return {};
}

std::vector<std::string> SharedCalls::all_calls() const {
  std::vector<std::string> calls;
  for (int rank = 0; rank < world_size_; ++rank) {
    std::string& text = calls.emplace_back();
    if (!has_entry(board_.ranks[rank])) continue;
    const Rank::Entry& entry = board_.ranks[rank].entries[number_ % kKept];
    const std::string_view name = read(entry.name, sizeof(entry.name));
    text = read(entry.call, sizeof(entry.call));
    if (!name.empty()) text = std::string(name) + ": " + text;
  }
  return calls;
}

void SharedCalls::fail(std::string_view reason) {
  uint32_t none = Board::kNone;
  if (!board_.failed.compare_exchange_strong(none, Board::kBeingWritten)) return;
  write(board_.reason, sizeof(board_.reason), reason);
  board_.failed.store(Board::kWritten, std::memory_order_release);
}

std::string SharedCalls::failure() const {
  if (board_.failed.load(std::memory_order_acquire) != Board::kWritten) return "";
  return std::string(read(board_.reason, sizeof(board_.reason)));
}

}  // namespace muster
