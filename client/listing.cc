#include "client/listing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/arguments.h"
#include "client/errors.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

std::string Upper(std::string_view key) {
  std::string header = absl::AsciiStrToUpper(common::ToAbsl(key));
  std::replace(header.begin(), header.end(), '_', ' ');
  return header;
}

std::string Plain(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (std::holds_alternative<std::monostate>(value)) return "";
  return JsonValue(value);
}

absl::StatusOr<size_t> ColumnIndex(const Listing& listing, std::string_view key) {
  std::vector<std::string_view> keys;
  for (size_t i = 0; i < listing.columns.size(); ++i) {
    if (absl::EqualsIgnoreCase(listing.columns[i].key, common::ToAbsl(key))) return i;
    keys.push_back(listing.columns[i].key);
  }
  std::string all;
  for (const std::string_view each : keys) StrAppend(&all, all.empty() ? "" : ",", each);
  return Usage("JC1008",
               StrCat("there is no column \"", key, "\"", DidYouMean(common::Nearest(key, keys))),
               StrCat("use one of ", all));
}

absl::Status Filter(Listing* listing, const std::string& filter) {
  const size_t equals = filter.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Usage("JC1008", StrCat("the filter \"", filter, "\" is not KEY=VALUE or KEY!=VALUE"),
                 "--filter state=RUNNING");
  }
  const bool negative = filter[equals - 1] == '!';
  const std::string key = filter.substr(0, negative ? equals - 1 : equals);
  const std::string wanted = filter.substr(equals + 1);
  ASSIGN_OR_RETURN(const size_t column, ColumnIndex(*listing, key));
  std::erase_if(listing->rows, [&](const std::vector<Cell>& row) {
    const bool same = absl::EqualsIgnoreCase(Plain(row[column].value), wanted) ||
                      absl::EqualsIgnoreCase(row[column].text, wanted);
    return same == negative;
  });
  return absl::OkStatus();
}

bool Less(const Value& a, const Value& b) {
  const auto number = [](const Value& value) -> double {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
    return -std::numeric_limits<double>::infinity();
  };
  if (std::holds_alternative<std::string>(a) && std::holds_alternative<std::string>(b)) {
    return std::get<std::string>(a) < std::get<std::string>(b);
  }
  return number(a) < number(b);
}

absl::Status Sort(Listing* listing, std::string_view key) {
  const bool descending = key.starts_with('-');
  if (descending) key.remove_prefix(1);
  ASSIGN_OR_RETURN(const size_t column, ColumnIndex(*listing, key));
  std::stable_sort(listing->rows.begin(), listing->rows.end(), [&](const auto& a, const auto& b) {
    return descending ? Less(b[column].value, a[column].value)
                      : Less(a[column].value, b[column].value);
  });
  return absl::OkStatus();
}

// The columns that are printed, as indexes.
absl::StatusOr<std::vector<size_t>> Chosen(const Listing& listing, const ListingOptions& options) {
  std::vector<size_t> chosen;
  for (const std::string& key : options.columns) {
    ASSIGN_OR_RETURN(const size_t column, ColumnIndex(listing, key));
    chosen.push_back(column);
  }
  if (!chosen.empty()) return chosen;
  for (size_t i = 0; i < listing.columns.size(); ++i) {
    if (options.output != "table" || !listing.columns[i].wide) chosen.push_back(i);
  }
  return chosen;
}

size_t TableWidth(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (const size_t width : widths) sum += width + 2;
  return widths.empty() ? 0 : sum - 2;
}

// Takes columns of the terminal from the widest shrinkable columns until the table fits; from the
// name, which people copy, only when the others cannot give more.
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

// Without the columns that say nothing in any row, where the terminal is too narrow for all.
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

// Takes a line of at most `width` from `rest`, broken at a blank where one is near.
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

std::string HumanTable(const Listing& listing, std::vector<size_t> chosen,
                       const ListingOptions& options, const Terminal& terminal) {
  if (options.output == "table" && options.columns.empty())
    DropEmptyColumns(listing, terminal.width, &chosen);
  std::vector<std::vector<std::string>> lines;
  if (options.headers) {
    lines.emplace_back();
    for (const size_t column : chosen) lines.back().push_back(Upper(listing.columns[column].key));
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

std::string PipedTable(const Listing& listing, const std::vector<size_t>& chosen, bool headers) {
  std::string out;
  const auto join = [&](const auto& text_of) {
    for (size_t i = 0; i < chosen.size(); ++i)
      StrAppend(&out, i == 0 ? "" : "\t", text_of(chosen[i]));
    out += '\n';
  };
  if (headers) join([&](size_t column) { return Upper(listing.columns[column].key); });
  for (const std::vector<Cell>& row : listing.rows) {
    join([&](size_t column) {
      std::string text = row[column].text;
      // A tab or newline inside a cell would shift the columns.
      std::replace_if(
          text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; },
          ' ');
      return text;
    });
  }
  return out;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string Csv(const Listing& listing, const std::vector<size_t>& chosen, bool headers) {
  std::string out;
  if (headers) {
    for (size_t i = 0; i < chosen.size(); ++i)
      StrAppend(&out, i == 0 ? "" : ",", listing.columns[chosen[i]].key);
    out += "\n";
  }
  for (const std::vector<Cell>& row : listing.rows) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      StrAppend(&out, i == 0 ? "" : ",", CsvField(Plain(row[chosen[i]].value)));
    }
    out += "\n";
  }
  return out;
}

std::string JsonObject(const Listing& listing, const std::vector<Cell>& row,
                       const std::vector<size_t>& chosen) {
  std::string out = "{";
  for (size_t i = 0; i < chosen.size(); ++i) {
    StrAppend(&out, i == 0 ? "" : ", ", JsonQuote(listing.columns[chosen[i]].key), ": ",
              JsonValue(row[chosen[i]].value));
  }
  return out + "}";
}

std::string Json(const Listing& listing, const std::vector<size_t>& chosen) {
  std::string out =
      StrCat("{\"version\": 1, \"kind\": ", JsonQuote(listing.kind), ", \"items\": [");
  for (size_t i = 0; i < listing.rows.size(); ++i) {
    StrAppend(&out, i == 0 ? "\n  " : ",\n  ", JsonObject(listing, listing.rows[i], chosen));
  }
  return out + (listing.rows.empty() ? "]}\n" : "\n]}\n");
}

std::string Yaml(const Listing& listing, const std::vector<size_t>& chosen) {
  std::string out =
      StrCat("version: 1\nkind: ", listing.kind, "\nitems:", listing.rows.empty() ? " []\n" : "\n");
  for (const std::vector<Cell>& row : listing.rows) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Value& value = row[chosen[i]].value;
      const auto* text = std::get_if<std::string>(&value);
      StrAppend(&out, i == 0 ? "- " : "  ", listing.columns[chosen[i]].key, ": ",
                text != nullptr ? YamlQuote(*text) : JsonValue(value), "\n");
    }
  }
  return out;
}

}  // namespace

Cell::Cell(std::string human) : value(human), text(std::move(human)) {}
Cell::Cell(const char* human) : Cell(std::string(human)) {}
Cell::Cell(int64_t number) : value(number), text(std::to_string(number)) {}

std::string JsonValue(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return JsonQuote(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value)) {
    if (std::isnan(*real)) return "\"NaN\"";
    if (std::isinf(*real)) return *real > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return absl::StrFormat("%.17g", *real).size() > 12 ? absl::StrFormat("%.9g", *real)
                                                       : absl::StrFormat("%.17g", *real);
  }
  return "null";
}

std::string YamlQuote(std::string_view text) {
  const bool word = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  });
  constexpr std::string_view kAmbiguous[] = {"true", "false", "yes", "no", "on",
                                             "off",  "null",  "y",   "n"};
  const bool ambiguous =
      std::any_of(std::begin(kAmbiguous), std::end(kAmbiguous), [&](std::string_view each) {
        return absl::EqualsIgnoreCase(common::ToAbsl(each), common::ToAbsl(text));
      });
  if (word && !ambiguous && absl::ascii_isalpha(text[0])) return std::string(text);
  return JsonQuote(text);
}

absl::StatusOr<ListingOptions> ListingOptions::From(const Arguments& arguments,
                                                    std::string_view default_output) {
  ListingOptions options;
  options.output = arguments.Get("output", default_output);
  for (const std::string& list : arguments.All("columns")) {
    for (const auto part : absl::StrSplit(list, ',', absl::SkipEmpty()))
      options.columns.emplace_back(part);
  }
  for (const std::string& list : arguments.All("filter")) {
    for (const auto part : absl::StrSplit(list, ',', absl::SkipEmpty()))
      options.filters.emplace_back(part);
  }
  options.sort = arguments.Get("sort");
  options.headers = !arguments.Has("no-headers");
  ASSIGN_OR_RETURN(options.limit, arguments.Number("limit", 0, 1'000'000, 0));
  return options;
}

absl::StatusOr<std::string> RenderListing(Listing listing, const ListingOptions& options,
                                          const Terminal& terminal) {
  for (const std::string& filter : options.filters) RETURN_IF_ERROR(Filter(&listing, filter));
  if (!options.sort.empty()) RETURN_IF_ERROR(Sort(&listing, options.sort));
  if (options.limit > 0 && listing.rows.size() > static_cast<size_t>(options.limit)) {
    listing.rows.resize(options.limit);
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> chosen, Chosen(listing, options));
  if (options.output == "json") return Json(listing, chosen);
  if (options.output == "yaml") return Yaml(listing, chosen);
  if (options.output == "csv") return Csv(listing, chosen, options.headers);
  if (options.output == "jsonl" || options.output == "name") {
    std::string out;
    for (const std::vector<Cell>& row : listing.rows) {
      StrAppend(&out,
                options.output == "name" ? Plain(row[listing.name_column].value)
                                         : JsonObject(listing, row, chosen),
                "\n");
    }
    return out;
  }
  if (!terminal.out_is_tty) return PipedTable(listing, chosen, options.headers);
  return HumanTable(listing, chosen, options, terminal);
}

}  // namespace muster::client
