// Folds equal lines of several ranks into one: a line waits briefly for its twins. Pure; affects
// only the display, never the stored bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
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

// Lines are returned in the order of their first occurrences. A line joins an equal line of another
// rank of its attempt that is still waiting and was written within kTwinsWithinUs. Other lines that
// its rank printed in between are then returned before it, unless they were folded, too: so lines
// of different ranks may change places, but lines of one rank never do.
class LogFold {
 public:
  static constexpr int64_t kTwinsWithinUs = 1'000'000;  // by the lines' own times
  static constexpr int64_t kWaitMs = 250;               // by the viewer's clock
  static constexpr size_t kWaitingBytesMax = 4 << 20;
  static constexpr size_t kWaitingLinesMax = 20'000;  // of all ranks, before folding

  // `ranks`: how many may print; a line that all of them printed need not wait.
  explicit LogFold(size_t ranks) : ranks_(ranks) {}
  // Another attempt may have more or fewer.
  void SetRanks(size_t ranks) { ranks_ = ranks; }

  // `line.ranks` has one rank. Appends lines that are due to `out`.
  void Add(FoldedLine line, int64_t now_ms, std::vector<FoldedLine>* out);
  // When the oldest line has waited long enough; nullopt: none waits.
  std::optional<int64_t> DueMs() const;
  void Due(int64_t now_ms, std::vector<FoldedLine>* out);
  void Flush(std::vector<FoldedLine>* out);

 private:
  struct Waiting {
    FoldedLine line;
    int64_t since_ms = 0;
    uint64_t place = 0;  // ascending
  };
  using Place = std::list<Waiting>::iterator;

  // The waiting line to fold this one into; waiting_.end(): none.
  Place Twin(const FoldedLine& line);
  bool MayJoin(uint32_t rank, Place twin);
  void MoveBefore(uint32_t rank, Place twin);
  void PopFirst(std::vector<FoldedLine>* out);
  void NumberPlaces();

  size_t ranks_;
  std::list<Waiting> waiting_;
  std::unordered_map<std::string, std::deque<Place>> by_text_;
  std::unordered_map<uint32_t, std::deque<Place>> by_rank_;  // in order
  size_t bytes_ = 0;
  size_t lines_ = 0;
};

// "[16 ranks]" for all of `all` ranks, "[0-3,7]" for some that fit into 16 characters, otherwise
// "[9 of 16 ranks]".
std::string RanksText(std::vector<uint32_t> ranks, size_t all);

}  // namespace muster::client
