// Decides when to draw a progress bar, and erases it for other output; see
// muster/tracking/progress_bar.h.
#include "muster/tracking/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tracking/bar_text.h"
#include "tracking/text.h"

namespace muster {
namespace {

constexpr int kColumnsDefault = 80;
constexpr std::string_view kErase = "\r\x1b[K";  // go to column 0, clear the line

bool environment_shows_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string upper(value);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
    return upper.find("UTF-8") != upper.npos || upper.find("UTF8") != upper.npos;
  }
  return false;
}

int terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* value = std::getenv("COLUMNS");
  const int columns = value ? std::atoi(value) : 0;
  return columns > 0 ? columns : kColumnsDefault;
}

void write_quietly(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A postfix value; formatted only when the bar is drawn.
struct NamedValue {
  std::string name;
  double value = 0;

  std::string text() const {
    char number[32];
    std::snprintf(number, sizeof(number), " %.4g", value);
    return to_valid_utf8(name) + number;
  }
};

}  // namespace

struct ProgressBar::State {
  State(ProgressBarOptions given, const Topology& topology)
      : options(std::move(given)),
        shown(!options.main_process_only || topology.local_rank == 0),
        terminal(options.terminal.value_or(::isatty(options.fd) == 1)),
        utf8(options.utf8.value_or(environment_shows_utf8())),
        step(options.initial) {
    options.description = to_valid_utf8(options.description);
    begin = now();
    last_line = begin;
    last_line_tenth = tenth();
  }

  double now() const { return options.now ? options.now() : steady_seconds(); }
  int64_t tenth() const { return options.total > 0 ? 10 * step / options.total : 0; }

  // Calls show with the current state.
  template <typename Show>
  std::string rendered(double time, Show show) const {
    std::vector<std::string> entries;
    for (const NamedValue& value : postfix) entries.push_back(value.text());
    return show(BarState{options.description, options.unit, entries, step, options.total,
                         step - options.initial, time - begin});
  }

  void draw(double time) {
    next_draw = time + options.redraw_seconds;
    // Keep the last column free: some terminals wrap when it is written.
    const int columns = options.columns.value_or(terminal_columns(options.fd)) - 1;
    const std::string text = rendered(
        time, [&](const BarState& bar) { return bar_text(bar, std::max(columns, 1), utf8); });
    write_quietly(options.fd, std::string(kErase) + text);
    drawn = true;
  }

  void erase() {
    if (drawn) write_quietly(options.fd, kErase);
    drawn = false;
  }

  void write_plain(double time) {
    last_line = time;
    last_line_tenth = tenth();
    last_line_step = step;
    write_quietly(options.fd, rendered(time, plain_text) + "\n");
  }

  void show() {
    if (!shown || closed) return;
    const double time = now();
    if (terminal) {
      if (time >= next_draw) draw(time);
    } else if (tenth() > last_line_tenth || time - last_line >= options.line_seconds) {
      write_plain(time);
    }
  }

  void close() {
    if (!shown || closed) return;
    const double time = now();
    if (!terminal) {
      if (last_line_step != step) write_plain(time);
    } else if (options.leave) {
      draw(time);
      write_quietly(options.fd, "\n");
    } else {
      erase();
    }
    closed = true;
  }

  std::mutex mutex;
  ProgressBarOptions options;
  const bool shown;
  const bool terminal;
  const bool utf8;
  int64_t step;
  std::vector<NamedValue> postfix;
  double begin = 0;
  double next_draw = -HUGE_VAL;
  double last_line = 0;
  int64_t last_line_tenth = 0;
  int64_t last_line_step = -1;
  bool drawn = false;
  bool closed = false;
};

ProgressBar::ProgressBar(ProgressBarOptions options)
    : ProgressBar(std::move(options), Topology::from_environment()) {}

ProgressBar::ProgressBar(ProgressBarOptions options, const Topology& topology)
    : state_(std::make_unique<State>(std::move(options), topology)) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->terminal) state_->show();
}

ProgressBar::~ProgressBar() { close(); }

void ProgressBar::update(int64_t steps) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->step += steps;
  state_->show();
}

void ProgressBar::set(int64_t step) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->step = step;
  state_->show();
}

void ProgressBar::set_total(int64_t total) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->options.total = total;
  state_->last_line_tenth = state_->tenth();
  state_->show();
}

void ProgressBar::set_description(std::string description) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->options.description = to_valid_utf8(description);
}

void ProgressBar::set_postfix(std::initializer_list<ScalarValue> values) {
  set_postfix(std::span<const ScalarValue>(values.begin(), values.size()));
}

void ProgressBar::set_postfix(std::span<const ScalarValue> values) {
  if (!state_->shown) return;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->postfix.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    state_->postfix[i].name.assign(values[i].name);
    state_->postfix[i].value = values[i].value;
  }
}

void ProgressBar::write(std::string_view line) {
  interrupt([&] { write_quietly(state_->options.fd, std::string(line) + "\n"); });
}

void ProgressBar::interrupt(const std::function<void()>& print) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const bool was_drawn = state_->drawn;
  state_->erase();
  print();
  if (was_drawn && !state_->closed) state_->draw(state_->now());
}

void ProgressBar::close() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->close();
}

}  // namespace muster
