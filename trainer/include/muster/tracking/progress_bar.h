// Progress of a loop: a bar on a terminal, an occasional line elsewhere.
//
//   muster::ProgressBar bar({.total = steps, .description = "train"});
//   for (...) { ...; bar.set_postfix({{"loss", loss}}); bar.update(); }
//
//   train  42% |█████████████                  | 420/1000 51.2/s eta 0:11 loss 0.431
//   train 420/1000 42% 51.2/s eta 0:11 loss 0.431
//
// Only the local main process shows it. On a terminal the bar is redrawn on the last line, at most
// ten times a second, and fitted to the terminal's width. Elsewhere a line is written at each tenth
// of the total, and every line_seconds if that takes longer. update() costs one clock read unless
// output is due. Any thread. Output errors are ignored.
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
  int64_t total = 0;    // 0: unknown; then there is no bar and no eta
  int64_t initial = 0;  // where a resumed run begins; the rate is computed from here
  std::string description = {};
  std::string unit = {};          // "" for "51.2/s", "batch" for "51.2 batch/s"
  bool leave = true;              // keep the finished bar on the terminal; false: erase it
  bool main_process_only = true;  // of this node; false: every rank shows its own bar

  double redraw_seconds = 0.1;  // terminal
  double line_seconds = 30;     // not on a terminal

  int fd = 2;  // stderr: stdout is for results. Not owned.
  // Detected if not set: whether fd is a terminal; its width (the terminal's own, else COLUMNS,
  // else 80); whether it displays UTF-8 (LC_ALL, LC_CTYPE, LANG).
  std::optional<bool> terminal = {};
  std::optional<int> columns = {};
  std::optional<bool> utf8 = {};
  // Seconds of a monotonic clock. Empty: std::chrono::steady_clock.
  std::function<double()> now = {};
};

class ProgressBar {
 public:
  // Throws TopologyError if the environment does not define a valid rank.
  explicit ProgressBar(ProgressBarOptions options = {});
  ProgressBar(ProgressBarOptions options, const Topology& topology);
  ~ProgressBar();  // close()
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(int64_t steps = 1);  // adds to the steps done
  void set(int64_t step);          // sets the steps done
  void set_total(int64_t total);
  void set_description(std::string description);
  // Text at the end of the line, such as "loss 0.431"; replaces the previous one at the next
  // redraw.
  void set_postfix(std::initializer_list<ScalarValue> values);
  void set_postfix(std::span<const ScalarValue> values);

  // Writes a line above the bar, to fd, and appends the newline.
  void write(std::string_view line);
  // Erases the bar, calls print, which may write to any stream on the terminal, and redraws the
  // bar. print must not call the bar.
  void interrupt(const std::function<void()>& print);

  // Draws the bar a last time; later calls show nothing.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
