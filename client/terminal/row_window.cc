#include "client/terminal/row_window.h"

#include <algorithm>
#include <cstdint>

#include "common/text/strings.h"

namespace muster::client {
namespace {

using Key = LiveScreen::Key;

// The letters of less and vi.
Key KeyOf(const LiveScreen::Event& event) {
  if (event.key != Key::kCharacter) return event.key;
  switch (event.character) {
    case 'k':
      return Key::kUp;
    case 'j':
      return Key::kDown;
    case 'b':
      return Key::kPageUp;
    case 'f':
      return Key::kPageDown;
    case 'g':
      return Key::kHome;
    case 'G':
      return Key::kEnd;
    default:
      return Key::kNone;
  }
}

}  // namespace

void RowWindow::Up(size_t rows) {
  first_ -= std::min(first_, rows);
  wants_end_ = false;
}

bool RowWindow::OnKey(const LiveScreen::Event& event) {
  switch (KeyOf(event)) {
    case Key::kUp:
      Up(1);
      break;
    case Key::kDown:
      ++first_;
      break;
    case Key::kPageUp:
      Up(page_);
      break;
    case Key::kPageDown:
      first_ += page_;
      break;
    case Key::kHome:
      Up(first_);
      break;
    case Key::kEnd:
      first_ = SIZE_MAX / 2;
      wants_end_ = true;
      break;
    default:
      return false;
  }
  anchor_.clear();
  return true;
}

void RowWindow::Fit(size_t rows, size_t page) {
  page_ = std::max<size_t>(1, page);
  first_ = std::min(first_, rows > page_ ? rows - page_ : 0);
  last_ = std::min(rows, first_ + page_);
}

void RowWindow::Follow(const std::vector<std::string>& names, size_t page) {
  if (wants_end_) {
    first_ = SIZE_MAX / 2;
  } else if (first_ > 0 && !anchor_.empty()) {
    const auto anchor = std::find(names.begin(), names.end(), anchor_);
    if (anchor != names.end()) first_ = static_cast<size_t>(anchor - names.begin());
  }
  Fit(names.size(), page);
  anchor_ = first_ < names.size() ? names[first_] : "";
}

size_t RowWindow::Needed() const {
  if (wants_end_) return SIZE_MAX;
  return first_ + 2 * page_ + 1;
}

std::string RowWindow::PlaceText(size_t rows, bool has_more) const {
  if (rows <= page_ && !has_more) return "";
  return common::StrCat("rows ", rows == 0 ? 0 : first_ + 1, "-", last_, " of ", rows,
                        has_more ? "+" : "", "  ");
}

}  // namespace muster::client
