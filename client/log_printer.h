// Writes ranks' bytes to the client's stdout and stderr: whole lines with a prefix, or the exact
// bytes with `raw`. One thread; a second one, started on demand, shows folded lines in time.
//
// In a pipe, a line's bytes are never changed; on a terminal, control characters are escaped, and a
// progress bar that redraws its line with carriage returns is shown once per second.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "client/first_error.h"
#include "client/log_fold.h"
#include "client/terminal.h"
#include "common/line_search.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class LogPrinter {
 public:
  struct Options {
    bool raw = false;
    bool split_streams = false;  // a rank's stderr goes to our stderr
    bool timestamps = false;
    // The lines to show. Applied here only to records that an older coordinator sent unsearched.
    common::LineQuery query = {};
    // How many ranks are shown: on a terminal their equal lines are folded. 0: never; 1: not known
    // yet, SetRanks tells.
    size_t fold_ranks = 0;
    bool first_error = false;  // only the first line that reads as an error
    bool json_lines = false;   // each line as a JSON object
  };
  LogPrinter(Options options, const Terminal& terminal);
  ~LogPrinter();
  LogPrinter(const LogPrinter&) = delete;

  // Errors: JC1019 for a bad pattern. Call once, before Write.
  absl::Status Prepare();
  void Write(const v1::LogRecord& record);
  // How many ranks print from now on, if lines are folded at all. Any thread.
  void SetRanks(size_t ranks);
  // Prints incomplete lines, counts and the first error.
  void Finish();
  // Further records would change nothing.
  bool Done() const { return options_.first_error && first_error_.Done(); }

 private:
  using Key = std::tuple<uint32_t, uint32_t, int>;  // attempt, rank, stream
  struct Stream {
    std::string prefix;
    std::string node;
    std::string partial;
    bool to_stderr = false;
    int64_t last_redraw_us = 0;
    int64_t last_us = 0;  // of its newest bytes
    uint64_t next_offset = 0;
    bool in_order = false;  // the next line directly follows the one before
    uint64_t matches = 0;
    common::LevelTracker levels;
    std::unique_ptr<common::LineSearch> search;  // of unsearched records
  };

  Stream& Of(const v1::LogRecord& record);
  void Show(const v1::LogRecord& record);
  // Shows what the query wants of an unsearched record.
  void Search(const v1::LogRecord& record);
  void ShowFound(v1::LogRecord like, std::deque<common::FoundLines> found);
  void TellLosses(const v1::LogRecord& record);
  void EndPartial(const Key& key, Stream& stream);
  void Separate(const Key& key, const Stream& stream, const v1::LogRecord& record);
  void WriteLines(const Key& key, Stream& stream, const v1::LogRecord& record);
  void Line(const Key& key, Stream& stream, std::string_view line, int64_t time_us);
  void Print(const std::vector<FoldedLine>& lines);
  void PrintCounts();
  void PrintFirstError();
  void FlushFold();
  void Flush();
  void FoldFor(size_t ranks);
  // Where lines of this stream appear, is a terminal.
  bool IsTty(bool to_stderr) const {
    return to_stderr ? terminal_.err_is_tty : terminal_.out_is_tty;
  }
  void WatchFold();

  const Options options_;
  const Terminal terminal_;
  std::optional<common::SearchShare> share_;

  std::mutex mutex_;  // guards what follows
  std::map<Key, Stream> streams_;
  std::optional<Key> last_shown_;
  std::optional<LogFold> fold_;
  size_t fold_ranks_ = 0;
  FirstError first_error_;
  std::string out_;
  std::string err_;
  bool ended_ = false;
  std::condition_variable fold_changed_;
  std::thread fold_watch_;
};

}  // namespace muster::client
