// Folds equal lines of several ranks into one: a line waits shortly for its twins. Pure; the bytes
// in the store are never changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster::client {

// A line as it will be shown.
struct FoldedLine {
  std::string text;
  std::string prefix;  // of the first rank that printed it
  std::string color;
  bool to_stderr = false;
  int64_t time_us = 0;
  uint32_t attempt = 0;
  std::vector<uint32_t> ranks;  // in the order of their lines
};

// Lines come out in the order in which the first of each came in. A line joins an equal one of
// another rank of its attempt if that is still waiting, was written within kTwinsWithinUs, and lies
// behind everything that its own rank printed before: the order of each rank's lines stays.
class LogFold {
 public:
  static constexpr int64_t kTwinsWithinUs = 1'000'000;  // by the lines' own times
  static constexpr int64_t kWaitMs = 250;               // by the viewer's clock
  static constexpr size_t kWaitingBytesMax = 4 << 20;
  static constexpr size_t kWaitingLinesMax = 20'000;  // of all ranks, before folding

  // `ranks`: how many may print; a line that all of them printed need not wait.
  explicit LogFold(size_t ranks) : ranks_(ranks) {}

  // `line.ranks` has one rank. What is due is appended to `out`.
  void Add(FoldedLine line, int64_t now_ms, std::vector<FoldedLine>* out);
  // When the oldest line has waited long enough; nullopt: none waits.
  std::optional<int64_t> DueMs() const;
  void Due(int64_t now_ms, std::vector<FoldedLine>* out);
  void Flush(std::vector<FoldedLine>* out);

 private:
  struct Waiting {
    FoldedLine line;
    int64_t since_ms = 0;
  };
  FoldedLine* Twin(const FoldedLine& line);
  void PopFirst(std::vector<FoldedLine>* out);

  const size_t ranks_;
  std::deque<Waiting> waiting_;
  uint64_t first_ = 0;  // number of waiting_.front(), counted from the beginning
  std::unordered_map<std::string, std::deque<uint64_t>> by_text_;
  std::unordered_map<uint32_t, uint64_t> behind_;  // of each rank: the number behind its last line
  size_t bytes_ = 0;
  size_t lines_ = 0;
};

// "[16 ranks]" for all of `all` ranks, "[0-3,7]" for some that fit into 16 characters, otherwise
// "[9 of 16 ranks]".
std::string RanksText(std::vector<uint32_t> ranks, size_t all);

}  // namespace muster::client
