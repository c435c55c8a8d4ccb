// Searches a job's streams for lines: a cursor that reads another one block by block and returns the found
// lines as pieces, in the same order, with its progress in between. Cursors are merged by time as usual
// (log_merge.h), so each stream runs ahead of the slowest by one block at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/lines/line_search.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

// Shared by the streams of one query. The work pool's threads, one at a time.
class LogSearch {
 public:
  // Pieces received before `since_ms` are skipped.
  LogSearch(std::shared_ptr<const common::LineMatcher> matcher, int64_t since_ms)
      : share_(std::move(matcher)), since_ms_(since_ms) {}

  // Searches `inner`, which starts at `offset`. This must outlive the result.
  std::unique_ptr<LogCursor> Search(std::unique_ptr<LogCursor> inner, uint64_t offset);
  // Sets how many streams are searched: the more there are, the less each reads at a time, so that
  // the lines found ahead of the merge stay bounded in total.
  void Divide(size_t streams);
  // How many bytes a stream's inner cursor should read ahead: a block with the heads of its pieces.
  size_t AheadBytes() const { return block_bytes_ + block_bytes_ / 2; }
  // From now on an unfinished line is searched when its stream has nothing more for now.
  void EndOpenLines() { ends_open_lines_ = true; }
  bool EndsOpenLines() const { return ends_open_lines_; }
  // The bytes of all streams searched so far.
  uint64_t SearchedBytes() const { return searched_bytes_; }

 private:
  friend class SearchCursor;

  common::SearchShare share_;
  const int64_t since_ms_;
  size_t block_bytes_ = kBlockBytesMax;
  bool ends_open_lines_ = false;
  uint64_t searched_bytes_ = 0;
  // A block's text and times, used by one stream at a time.
  std::string text_;
  std::vector<common::TimeMark> marks_;

  static constexpr size_t kBlockBytesMax = 256 << 10;
  static constexpr size_t kBlockBytesMin = 16 << 10;
  static constexpr size_t kAllBlocksBytes = 32 << 20;
};

}  // namespace muster::coordinator
