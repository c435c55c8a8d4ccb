#include "client/terminal/text_diff.h"

#include <algorithm>
#include <vector>

#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr size_t kContext = 3;
constexpr int kEditsMax = 1'000;  // a path with this many edits takes 4 MB of memory

using Lines = std::vector<std::string_view>;  // each with its newline

Lines LinesOf(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// ' ' a line of both, '-' of a, '+' of b.
using Edits = std::string;

// Myers' shortest path through the grid of both, for the lines between the common ends. Empty if it is longer
// than kEditsMax.
class ShortestEdits {
 public:
  ShortestEdits(const Lines& a, const Lines& b, size_t begin, size_t end_a, size_t end_b)
      : a_(a.data() + begin),
        b_(b.data() + begin),
        n_(static_cast<int>(end_a - begin)),
        m_(static_cast<int>(end_b - begin)) {}

  Edits Find() {
    const int most = std::min(n_ + m_, kEditsMax);
    std::vector<int> furthest(2 * most + 3, 0);
    for (int d = 0; d <= most; ++d) {
      for (int k = -d; k <= d; k += 2) {
        int* at = &furthest[most + 1 + k];
        int x = k == -d || (k != d && at[-1] < at[1]) ? at[1] : at[-1] + 1;
        while (x < n_ && x - k < m_ && a_[x] == b_[x - k]) ++x;
        *at = x;
        if (x >= n_ && x - k >= m_) return Back(d);
      }
      // Row d has the diagonals -d to d.
      paths_.emplace_back(furthest.begin() + most + 1 - d, furthest.begin() + most + 2 + d);
    }
    return "";
  }

 private:
  int Furthest(int d, int k) const { return paths_[d][k + d]; }

  Edits Back(int d) const {
    Edits edits;
    int x = n_, y = m_;
    for (; d > 0; --d) {
      const int k = x - y;
      const bool down =
          k == -d ||
          (k != d && (k - 1 < -(d - 1) ||
                      (k + 1 <= d - 1 && Furthest(d - 1, k - 1) < Furthest(d - 1, k + 1))));
      const int before = down ? k + 1 : k - 1;
      const int from = Furthest(d - 1, before);
      const int behind = down ? from : from + 1;  // x after the edit
      edits.append(static_cast<size_t>(x - behind), ' ');
      edits += down ? '+' : '-';
      x = from;
      y = from - before;
    }
    edits.append(static_cast<size_t>(x), ' ');
    std::reverse(edits.begin(), edits.end());
    return edits;
  }

  const std::string_view* a_;
  const std::string_view* b_;
  const int n_, m_;
  std::vector<std::vector<int>> paths_;
};

Edits EditsBetween(const Lines& a, const Lines& b) {
  size_t begin = 0, end_a = a.size(), end_b = b.size();
  while (begin < end_a && begin < end_b && a[begin] == b[begin]) ++begin;
  while (end_a > begin && end_b > begin && a[end_a - 1] == b[end_b - 1]) --end_a, --end_b;
  Edits middle = ShortestEdits(a, b, begin, end_a, end_b).Find();
  if (middle.empty()) middle = std::string(end_a - begin, '-') + std::string(end_b - begin, '+');
  return std::string(begin, ' ') + middle + std::string(a.size() - end_a, ' ');
}

// "3,7", "3" for one line, "2,0" for none after line 2.
std::string RangeOf(size_t begin, size_t count) {
  if (count == 1) return StrCat(begin + 1);
  return StrCat(count == 0 ? begin : begin + 1, ",", count);
}

// One "@@" with the edits from `from` to `to`.
std::string Hunk(const Lines& a, const Lines& b, const Edits& edits, size_t from, size_t to) {
  const auto lines_until = [&](size_t end, char other) {
    return static_cast<size_t>(std::count_if(edits.begin(), edits.begin() + static_cast<long>(end),
                                             [other](char edit) { return edit != other; }));
  };
  size_t in_a = lines_until(from, '+'), in_b = lines_until(from, '-');
  std::string text = StrCat("@@ -", RangeOf(in_a, lines_until(to, '+') - in_a), " +",
                            RangeOf(in_b, lines_until(to, '-') - in_b), " @@\n");
  for (size_t i = from; i < to; ++i) {
    std::string_view line = edits[i] == '+' ? b[in_b] : a[in_a];
    if (edits[i] != '+') ++in_a;
    if (edits[i] != '-') ++in_b;
    const bool has_end = line.ends_with('\n');
    if (has_end) line.remove_suffix(1);
    StrAppend(&text, std::string(1, edits[i]), common::Printable(line, /*keep_layout=*/true),
              has_end ? "\n" : "\n\\ No newline at end of file\n");
  }
  return text;
}

}  // namespace

std::string UnifiedDiff(std::string_view a, std::string_view b, const std::string& name_a,
                        const std::string& name_b) {
  if (a == b) return "";
  const std::string first = common::Printable(name_a), second = common::Printable(name_b);
  if (a.find('\0') != std::string_view::npos || b.find('\0') != std::string_view::npos)
    return StrCat("Binary files ", first, " and ", second, " differ\n");
  const Lines in_a = LinesOf(a), in_b = LinesOf(b);
  const Edits edits = EditsBetween(in_a, in_b);
  std::string text = StrCat("--- ", first, "\n+++ ", second, "\n");
  const auto is_edit = [](char edit) { return edit != ' '; };
  for (auto at = std::find_if(edits.begin(), edits.end(), is_edit); at != edits.end();) {
    // Edits closer than twice the context share a hunk.
    auto last = at;
    auto next = at;
    while ((next = std::find_if(last + 1, edits.end(), is_edit)) != edits.end() &&
           next - last <= static_cast<long>(2 * kContext)) {
      last = next;
    }
    const auto index = [&](auto place) { return static_cast<size_t>(place - edits.begin()); };
    const size_t from = index(at) - std::min(index(at), kContext);
    const size_t to = std::min(index(last) + 1 + kContext, edits.size());
    text += Hunk(in_a, in_b, edits, from, to);
    at = next;
  }
  return text;
}

}  // namespace muster::client
