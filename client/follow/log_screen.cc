// log_screen: when LogPrinter writes, and the bars below everything else.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "client/follow/log_printer.h"
#include "client/terminal/terminal.h"
#include "common/base/clock.h"
#include "common/text/strings.h"

namespace muster::client {

// When the terminal next needs an update.
std::optional<int64_t> LogPrinter::DueMs() const {
  const std::optional<int64_t> lines = fold_.has_value() ? fold_->DueMs() : std::nullopt;
  if (!lines.has_value() || !bars_due_ms_.has_value())
    return lines.has_value() ? lines : bars_due_ms_;
  return std::min(*lines, *bars_due_ms_);
}

void LogPrinter::StartWatch() {
  if (!watch_.joinable()) watch_ = std::thread([this] { Watch(); });
  due_changed_.notify_all();
}

// Shows lines whose twins never came, and bars, even while the ranks are silent.
void LogPrinter::Watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const std::optional<int64_t> due = DueMs();
    if (!due.has_value()) {
      due_changed_.wait(lock);
      continue;
    }
    const int64_t now = common::MonotonicMs();
    if (*due > now) {
      due_changed_.wait_for(lock, std::chrono::milliseconds(*due - now));
      continue;
    }
    std::vector<FoldedLine> lines;
    if (fold_.has_value()) fold_->Due(now, &lines);
    Print(lines);
    Flush();
  }
}

std::vector<Bar> LogPrinter::Bars() const {
  std::vector<Bar> bars;
  for (const auto& [key, stream] : streams_) {
    if (!ShowsBars(stream) || !stream.open.HasBar()) continue;
    const size_t width =
        DisplayWidth(common::StrCat("[", stream.node, ":", std::get<1>(key), "] "));
    for (const std::string& row : stream.open.rows()) {
      std::string state = StateOf(row);
      if (!state.empty()) bars.push_back({stream.prefix, width, std::move(state)});
    }
  }
  return bars;
}

void LogPrinter::WriteBars(const std::string& text) {
  if (text.empty()) return;
  FILE* screen = terminal_.out_is_tty ? stdout : stderr;
  fwrite(text.data(), 1, text.size(), screen);
  fflush(screen);
}

void LogPrinter::Aside(const std::function<void()>& print) {
  std::lock_guard lock(mutex_);
  WriteOut();
  WriteBars(bars_.Erase());
  print();
  WriteBars(bars_.Draw(Bars()));
}

void LogPrinter::StopBars() {
  std::lock_guard lock(mutex_);
  has_bars_ = false;
  bars_due_ms_.reset();
  WriteBars(bars_.Erase());
}

// Bars stay the last lines on the screen.
void LogPrinter::Flush() {
  WriteOut();
  if (!bars_due_ms_.has_value() || *bars_due_ms_ > common::MonotonicMs()) return;
  bars_due_ms_.reset();
  WriteBars(bars_.Draw(Bars()));
}

void LogPrinter::WriteOut() {
  if (out_.empty() && err_.empty()) return;
  if (const std::string erased = bars_.Erase(); !erased.empty()) {
    WriteBars(erased);
    bars_due_ms_ = common::MonotonicMs();
  }
  if (!out_.empty()) {
    fwrite(out_.data(), 1, out_.size(), stdout);
    fflush(stdout);
    out_.clear();
  }
  if (!err_.empty()) {
    fwrite(err_.data(), 1, err_.size(), stderr);
    err_.clear();
  }
}

}  // namespace muster::client
