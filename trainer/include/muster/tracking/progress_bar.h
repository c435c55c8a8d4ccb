// How far a loop is: a bar on a terminal, a line now and then everywhere else.
//
//   muster::ProgressBar bar({.total = steps, .description = "train"});
//   for (...) { ...; bar.set_postfix({{"loss", loss}}); bar.update(); }
//
//   train  42% |█████████████                  | 420/1000 51.2/s eta 0:11 loss 0.431
//   train 420/1000 42% 51.2/s eta 0:11 loss 0.431
//
// Only the local main process shows it. On a terminal the bar is drawn at most ten times a second
// on the last line and fits its width; elsewhere a line is written at each tenth of the total and,
// when that takes long, every so many seconds. update() costs a read of the clock when
// nothing is due. Any thread. Errors of the output are ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/topology.h"
#include "muster/tracking/tracker.h"

namespace muster {

struct ProgressBarOptions {
  int64_t total = 0;    // 0: not known; then there is no bar and no eta
  int64_t initial = 0;  // where a resumed run begins; the rate counts from here
  std::string description = {};
  std::string unit = {};          // "" for "51.2/s", "batch" for "51.2 batch/s"
  bool leave = true;              // on a terminal the finished bar stays; false: it is erased
  bool main_process_only = true;  // of this node; false: every rank shows its own

  double redraw_seconds = 0.1;  // terminal
  double line_seconds = 30;     // elsewhere

  int fd = 2;  // stderr: stdout is for results. Not owned.
  // What is found out by itself when empty: whether fd is a terminal; its width (the terminal's
  // own, else COLUMNS, else 80); whether it shows UTF-8 (LC_ALL, LC_CTYPE, LANG).
  std::optional<bool> terminal = {};
  std::optional<int> columns = {};
  std::optional<bool> utf8 = {};
  // Seconds of a clock that never goes back. Empty: std::chrono::steady_clock.
  std::function<double()> now = {};
};

class ProgressBar {
 public:
  // Throws TopologyError when the environment's place among the ranks is not one.
  explicit ProgressBar(ProgressBarOptions options = {});
  ProgressBar(ProgressBarOptions options, const Topology& topology);
  ~ProgressBar();  // close()
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(int64_t steps = 1);  // so many further ones are done
  void set(int64_t step);          // so many are done in all
  void set_total(int64_t total);
  void set_description(std::string description);
  // Shown behind the rest, as "loss 0.431"; replaces what was there. Shown at the next drawing.
  void set_postfix(std::initializer_list<ScalarValue> values);
  void set_postfix(std::span<const ScalarValue> values);

  // Writes a whole line (its newline is added) above the bar, to fd.
  void write(std::string_view line);
  // Takes the bar off the terminal, calls print (which may write to any stream of the terminal) and
  // draws the bar again. print must not call the bar.
  void interrupt(const std::function<void()>& print);

  // The last drawing, then nothing more.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
