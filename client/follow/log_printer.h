// Writes ranks' bytes to the client's stdout and stderr: whole lines with a prefix, or the exact
// bytes with `raw`. One thread; a second one, started on demand, shows folded lines and bars in time.
//
// A progress bar, a line that is redrawn with carriage returns, is one line in its last state. On a terminal it
// changes below all other lines until it is complete; in a pipe, while following, its current state is printed
// once a minute. The bytes of any other line are unchanged in a pipe, and with `raw` and `json_lines` those of
// all lines; on a terminal, control characters are escaped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
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
#include "client/follow/first_error.h"
#include "client/follow/log_fold.h"
#include "client/terminal/bar_block.h"
#include "client/terminal/redrawn_line.h"
#include "client/terminal/terminal.h"
#include "common/lines/line_search.h"
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
    // How many ranks are shown: on a terminal their equal lines are folded. 0: never fold; 1: not
    // known yet, SetRanks sets it.
    size_t fold_ranks = 0;
    bool first_error = false;  // only the first line that reads as an error
    bool json_lines = false;   // each line as a JSON object
    bool follows = false;      // the ranks are still writing
  };
  LogPrinter(Options options, const Terminal& terminal);
  ~LogPrinter();
  LogPrinter(const LogPrinter&) = delete;

  // Errors: JC1019 for a bad pattern. Call once, before Write.
  absl::Status Prepare();
  void Write(const v1::LogRecord& record);
  // How many ranks print from now on, if lines are folded at all. Any thread.
  void SetRanks(size_t ranks);
  // Removes the bars while it runs `print`, which writes to the terminal itself. Any thread.
  void Aside(const std::function<void()>& print);
  // From now on bars are shown only when they are complete. Any thread.
  void StopBars();
  // Prints incomplete lines, counts and the first error.
  void Finish();
  // Further records would change nothing.
  bool Done() const { return options_.first_error && first_error_.Done(); }

 private:
  using Key = std::tuple<uint32_t, uint32_t, int>;  // attempt, rank, stream
  struct Stream {
    std::string prefix;
    std::string node;
    OpenLines open;
    bool to_stderr = false;
    int64_t bar_shown_us = 0;  // when the line's state was last printed in a pipe; 0: it has none
    int64_t last_us = 0;       // of its newest bytes
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
  void EndOpenLines(const Key& key, Stream& stream, int64_t time_us);
  void Separate(const Key& key, const Stream& stream, const v1::LogRecord& record);
  void WriteLines(const Key& key, Stream& stream, const v1::LogRecord& record);
  void BarChanged(const Key& key, Stream& stream, int64_t time_us);
  // The last state of a redrawn line that the query wants.
  std::string StateOf(std::string_view line) const;
  void Line(const Key& key, Stream& stream, std::string_view line, int64_t time_us);
  void Print(const std::vector<FoldedLine>& lines);
  void PrintCounts();
  void PrintFirstError();
  void FlushFold();
  void Flush();
  void WriteOut();
  void WriteBars(const std::string& text);
  std::vector<Bar> Bars() const;
  void FoldFor(size_t ranks);
  // Whether lines of this stream go to a terminal.
  bool IsTty(bool to_stderr) const {
    return to_stderr ? terminal_.err_is_tty : terminal_.out_is_tty;
  }
  // Bars of this stream change on the screen.
  bool ShowsBars(const Stream& stream) const { return has_bars_ && IsTty(stream.to_stderr); }
  std::optional<int64_t> DueMs() const;
  void StartWatch();
  void Watch();

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
  bool has_bars_ = false;
  BarBlock bars_;
  std::optional<int64_t> bars_due_ms_;  // some have changed
  std::condition_variable due_changed_;
  std::thread watch_;
};

}  // namespace muster::client
