// Decides which of many rows a live view shows, and handles the keys that move it. Rows that come
// and go above do not move the visible rows. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/terminal/live_screen.h"

namespace muster::client {

class RowWindow {
 public:
  // True: it was one of the keys that scroll.
  bool OnKey(const LiveScreen::Event& event);

  // Places the window in `rows` rows; call after keys and before the rows are shown.
  void Fit(size_t rows, size_t page);
  // The same, but the first visible row stays the first one, wherever it is now. At the top the
  // window stays at the top. `names` identify the rows.
  void Follow(const std::vector<std::string>& names, size_t page);

  size_t first() const { return first_; }
  size_t last() const { return last_; }  // behind the last row shown
  // How many rows must be known to show the requested ones and one more page; SIZE_MAX: all.
  size_t Needed() const;
  // Call it when all rows are known, so that the requested end is reached.
  void KnowsAll() { wants_end_ = false; }
  // "rows 5-25 of 61  ", or nothing if all are shown.
  std::string PlaceText(size_t rows, bool has_more) const;

 private:
  void Up(size_t rows);

  size_t first_ = 0;
  size_t last_ = 0;
  size_t page_ = 1;
  bool wants_end_ = false;
  std::string anchor_;  // the name of the first row shown
};

}  // namespace muster::client
