#include "client/terminal/table.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/terminal/listing.h"
#include "client/terminal/terminal.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;

size_t TableWidth(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (const size_t width : widths) sum += width + 2;
  return widths.empty() ? 0 : sum - 2;
}

constexpr size_t kLeastWidth = 8;

// The display widths of these columns with all of their content.
std::vector<size_t> WholeWidths(const Listing& listing, const std::vector<size_t>& chosen,
                                bool headers) {
  std::vector<size_t> widths;
  for (const size_t column : chosen) {
    size_t width = headers ? listing.columns[column].key.size() : 1;
    for (const std::vector<Cell>& row : listing.rows)
      width = std::max(width, DisplayWidth(common::Printable(row[column].text)));
    widths.push_back(width);
  }
  return widths;
}

// The names in a cell of a list, all except the first with the space after the comma.
std::vector<std::string> NamesIn(const std::string& text) { return absl::StrSplit(text, ','); }

std::string MoreText(size_t more) {
  return more == 0 ? "" : common::StrCat(" and ", more, " more");
}

// "a, b and 3 more"; the first name is shortened in the middle if not even that fits.
std::string ShortenList(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  const std::vector<std::string> names = NamesIn(text);
  for (size_t told = names.size() - 1; told > 0; --told) {
    const auto end = names.begin() + static_cast<std::ptrdiff_t>(told);
    const std::string shorter =
        common::StrCat(absl::StrJoin(names.begin(), end, ","), MoreText(names.size() - told));
    if (DisplayWidth(shorter) <= width) return shorter;
  }
  const std::string more = MoreText(names.size() - 1);
  const size_t room = width - std::min(width, DisplayWidth(more));
  return common::StrCat(ShortenMiddle(names[0], room), more);
}

// The smallest width at which no two different names of a column look alike, at most `whole`.
size_t WidthApart(const Listing& listing, size_t column, size_t whole) {
  const bool list = listing.columns[column].list;
  std::set<std::string> names;
  size_t most = 1;  // names in a cell
  for (const std::vector<Cell>& row : listing.rows) {
    const std::vector<std::string> told =
        list ? NamesIn(row[column].text) : std::vector<std::string>{row[column].text};
    names.insert(told.front());
    most = std::max(most, told.size());
  }
  const size_t reserved = MoreText(most - 1).size();
  whole -= std::min(whole, reserved);
  size_t width = std::min(kLeastWidth, whole);
  for (; width < whole; ++width) {
    std::set<std::string> cut;
    for (const std::string& name : names) cut.insert(ShortenMiddle(common::Printable(name), width));
    if (cut.size() == names.size()) break;
  }
  return width + reserved;
}

bool MayShrink(const Column& column) {
  return column.shrink || column.wrap || column.names || column.list || column.curve;
}

// How narrow each column may become.
std::vector<size_t> LeastWidths(const Listing& listing, const std::vector<size_t>& chosen,
                                const std::vector<size_t>& whole) {
  std::vector<size_t> widths = whole;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Column& column = listing.columns[chosen[i]];
    if (MayShrink(column)) widths[i] = std::min(whole[i], kLeastWidth);
    if (column.names || column.list)
      widths[i] = std::min(whole[i], WidthApart(listing, chosen[i], whole[i]));
  }
  return widths;
}

// Narrows the widest columns until the table fits the terminal; the name, which people copy, only if
// the others cannot shrink further.
void Fit(std::vector<size_t>* widths, const std::vector<size_t>& least, size_t name,
         size_t terminal_width) {
  while (TableWidth(*widths) > terminal_width) {
    size_t widest = widths->size();
    for (size_t i = 0; i < widths->size(); ++i) {
      if (i == name || (*widths)[i] <= least[i]) continue;
      if (widest == widths->size() || (*widths)[i] > (*widths)[widest]) widest = i;
    }
    if (widest == widths->size()) {
      if (name >= widths->size() || (*widths)[name] <= least[name]) return;
      widest = name;
    }
    --(*widths)[widest];
  }
}

// Drops columns that are empty in every row if the terminal is too narrow for all.
void DropEmptyColumns(const Listing& listing, size_t terminal_width, std::vector<size_t>* chosen) {
  if (listing.rows.empty() || TableWidth(WholeWidths(listing, *chosen, true)) <= terminal_width)
    return;
  std::erase_if(*chosen, [&](size_t column) {
    return std::all_of(listing.rows.begin(), listing.rows.end(),
                       [column](const auto& row) { return row[column].text.empty(); });
  });
}

// Drops spare columns as long as names would otherwise have to be shortened.
void DropSpareColumns(const Listing& listing, size_t terminal_width, std::vector<size_t>* chosen) {
  const auto is_tighter = [&listing](size_t a, size_t b) {
    return listing.columns[a].spare < listing.columns[b].spare;
  };
  while (!chosen->empty()) {
    size_t width = 0;
    for (const size_t column : *chosen) {
      const size_t whole = WholeWidths(listing, {column}, true)[0];
      const bool keeps = !MayShrink(listing.columns[column]) || listing.columns[column].names;
      width += (keeps ? whole : std::min(whole, kLeastWidth)) + 2;
    }
    const auto spare = std::max_element(chosen->begin(), chosen->end(), is_tighter);
    if (width - 2 <= terminal_width || listing.columns[*spare].spare == 0) return;
    chosen->erase(spare);
  }
}

// A curve with at most `width` points, evenly taken, the first and the last among them.
std::string Thinned(const std::string& curve, size_t width) {
  std::vector<std::string> points;
  for (size_t begin = 0; begin < curve.size();) {
    size_t end = begin + 1;
    while (end < curve.size() && (static_cast<unsigned char>(curve[end]) & 0xC0) == 0x80) ++end;
    points.push_back(curve.substr(begin, end - begin));
    begin = end;
  }
  if (points.size() <= width || width < 2) return Shorten(curve, width);
  std::string out;
  for (size_t i = 0; i < width; ++i) out += points[i * (points.size() - 1) / (width - 1)];
  return out;
}

std::string CutTo(const Column& column, const std::string& text, size_t width) {
  if (column.curve) return Thinned(text, width);
  if (column.list) return ShortenList(text, width);
  return column.names ? ShortenMiddle(text, width) : Shorten(text, width);
}

// Takes a line of at most `width` from `rest`, broken at a space if one is near.
std::string TakeLine(std::string* rest, size_t width) {
  if (DisplayWidth(*rest) <= width) return std::exchange(*rest, "");
  size_t end = Shorten(*rest, width + 1).size() - std::string_view("…").size();
  if (const size_t blank = rest->rfind(' ', end); blank != std::string::npos && blank > end / 2) {
    end = blank;
  }
  const std::string line = rest->substr(0, end);
  rest->erase(0, rest->at(end) == ' ' ? end + 1 : end);
  return line;
}

}  // namespace

std::string ColumnTitle(const Column& column) {
  std::string title = absl::AsciiStrToUpper(common::ToAbsl(column.key));
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::string HumanTable(const Listing& listing, std::vector<size_t> chosen,
                       const ListingOptions& options, const Terminal& terminal) {
  const bool fits_terminal = options.output == "table" && !chosen.empty();
  if (fits_terminal && options.columns.empty()) {
    DropEmptyColumns(listing, terminal.width, &chosen);
    DropSpareColumns(listing, terminal.width, &chosen);
  }
  std::vector<std::vector<std::string>> lines;
  if (options.headers) {
    lines.emplace_back();
    for (const size_t column : chosen) lines.back().push_back(ColumnTitle(listing.columns[column]));
  }
  for (const std::vector<Cell>& row : listing.rows) {
    lines.emplace_back();
    for (const size_t column : chosen) {
      const std::string text = common::Printable(row[column].text);
      lines.back().push_back(text.empty() ? "-" : text);
    }
  }
  std::vector<size_t> widths = WholeWidths(listing, chosen, options.headers);
  const size_t name = static_cast<size_t>(
      std::find(chosen.begin(), chosen.end(), listing.name_column) - chosen.begin());
  if (fits_terminal && TableWidth(widths) > terminal.width)
    Fit(&widths, LeastWidths(listing, chosen, widths), name, terminal.width);
  std::string out;
  for (size_t at = 0; at < lines.size(); ++at) {
    std::string line;
    std::string rest;
    for (size_t i = 0; i < lines[at].size(); ++i) {
      const bool wraps = listing.columns[chosen[i]].wrap && i + 1 == chosen.size();
      if (wraps) rest = lines[at][i];
      const std::string text = wraps ? TakeLine(&rest, widths[i])
                                     : CutTo(listing.columns[chosen[i]], lines[at][i], widths[i]);
      const std::string padding(widths[i] - DisplayWidth(text), ' ');
      if (i > 0) line += "  ";
      line += listing.columns[chosen[i]].right ? padding + text : text + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    const bool bold = terminal.color_out && options.headers && at == 0;
    StrAppend(&out, bold ? "\033[1m" : "", line, bold ? "\033[0m" : "", "\n");
    const std::string indent(TableWidth(widths) - widths.back(), ' ');
    while (!rest.empty()) StrAppend(&out, indent, TakeLine(&rest, widths.back()), "\n");
  }
  return out;
}

}  // namespace muster::client
