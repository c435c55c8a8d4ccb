#include "client/table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/listing.h"
#include "client/terminal.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrAppend;

size_t TableWidth(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (const size_t width : widths) sum += width + 2;
  return widths.empty() ? 0 : sum - 2;
}

// Narrows the widest shrinkable columns until the table fits the terminal; the name, which people
// copy, only if the others cannot shrink further.
void Fit(std::vector<size_t>* widths, const std::vector<bool>& shrinkable, size_t name,
         size_t terminal_width) {
  constexpr size_t kLeast = 8;
  while (TableWidth(*widths) > terminal_width) {
    size_t widest = widths->size();
    for (size_t i = 0; i < widths->size(); ++i) {
      if (i == name) continue;
      if (shrinkable[i] && (*widths)[i] > kLeast &&
          (widest == widths->size() || (*widths)[i] > (*widths)[widest])) {
        widest = i;
      }
    }
    if (widest == widths->size()) {
      if (name >= widths->size() || !shrinkable[name] || (*widths)[name] <= kLeast) return;
      widest = name;
    }
    --(*widths)[widest];
  }
}

// Drops columns that are empty in every row if the terminal is too narrow for all.
void DropEmptyColumns(const Listing& listing, size_t terminal_width, std::vector<size_t>* chosen) {
  std::vector<size_t> widths;
  for (const size_t column : *chosen) {
    size_t width = listing.columns[column].key.size();
    for (const std::vector<Cell>& row : listing.rows)
      width = std::max(width, DisplayWidth(common::Printable(row[column].text)));
    widths.push_back(width);
  }
  if (listing.rows.empty() || TableWidth(widths) <= terminal_width) return;
  std::erase_if(*chosen, [&](size_t column) {
    return std::all_of(listing.rows.begin(), listing.rows.end(),
                       [column](const auto& row) { return row[column].text.empty(); });
  });
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
  if (options.output == "table" && options.columns.empty())
    DropEmptyColumns(listing, terminal.width, &chosen);
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
  std::vector<size_t> widths(chosen.size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(line[i]));
  }
  std::vector<bool> shrinkable;
  for (const size_t column : chosen) {
    shrinkable.push_back(listing.columns[column].shrink || listing.columns[column].wrap);
  }
  const size_t name = static_cast<size_t>(
      std::find(chosen.begin(), chosen.end(), listing.name_column) - chosen.begin());
  if (options.output == "table" && !chosen.empty()) Fit(&widths, shrinkable, name, terminal.width);
  std::string out;
  for (size_t at = 0; at < lines.size(); ++at) {
    std::string line;
    std::string rest;
    for (size_t i = 0; i < lines[at].size(); ++i) {
      const bool wraps = listing.columns[chosen[i]].wrap && i + 1 == chosen.size();
      if (wraps) rest = lines[at][i];
      const std::string text =
          wraps ? TakeLine(&rest, widths[i]) : Shorten(lines[at][i], widths[i]);
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
