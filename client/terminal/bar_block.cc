#include "client/terminal/bar_block.h"

#include <algorithm>
#include <utility>

#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {

using common::StrAppend;
using common::StrCat;

std::string BarBlock::Erase() {
  const size_t rows = std::exchange(rows_, 0);
  return rows == 0 ? "" : StrCat("\033[", rows, "A\r\033[J");
}

std::string BarBlock::Draw(const std::vector<Bar>& bars) {
  std::string out = Erase();
  // A block that is higher than the screen could not be removed.
  const size_t most = terminal_.height == 0 ? kBarsMax : std::min(kBarsMax, terminal_.height / 2);
  const size_t shown = std::min(bars.size(), most);
  for (size_t i = 0; i < shown; ++i) {
    const size_t used = bars[i].prefix_width + 1;  // the last column stays free: no terminal wraps
    const size_t room = terminal_.width > used ? terminal_.width - used : 1;
    StrAppend(&out, bars[i].prefix, Shorten(common::Printable(bars[i].text), room), "\n");
  }
  if (bars.size() > shown) {
    StrAppend(&out, "… and ", common::Counted(bars.size() - shown, "more bar"), "\n");
  }
  rows_ = shown + (bars.size() > shown ? 1 : 0);
  return out;
}

}  // namespace muster::client
