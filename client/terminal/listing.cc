#include "client/terminal/listing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/terminal/table.h"
#include "common/base/status.h"
#include "common/text/exact_number.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

// The name of the column's values in formats for programs.
const std::string& ValueName(const Column& column) {
  return column.value_name.empty() ? column.key : column.value_name;
}

std::string Plain(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* pairs = std::get_if<Pairs>(&value)) {
    std::string out;
    for (const auto& [key, each] : *pairs) StrAppend(&out, out.empty() ? "" : ",", key, "=", each);
    return out;
  }
  if (std::holds_alternative<std::monostate>(value)) return "";
  if (const auto* real = std::get_if<double>(&value); real != nullptr && !std::isfinite(*real))
    return common::ExactNumber(*real);
  return JsonValue(value);
}

absl::StatusOr<size_t> ColumnIndex(const Listing& listing, std::string_view key) {
  std::vector<std::string_view> keys;
  for (size_t i = 0; i < listing.columns.size(); ++i) {
    const Column& column = listing.columns[i];
    if (absl::EqualsIgnoreCase(column.key, common::ToAbsl(key)) ||
        absl::EqualsIgnoreCase(ValueName(column), common::ToAbsl(key))) {
      return i;
    }
    keys.push_back(column.key);
  }
  std::string all;
  for (const std::string_view each : keys) StrAppend(&all, all.empty() ? "" : ",", each);
  return Usage(
      "JC1008",
      StrCat("there is no column \"", key, "\"", common::DidYouMean(common::Nearest(key, keys))),
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

// Texts, then numbers, then NaN, then missing values. The last two come last in both directions, because
// a user who sorts by a loss looks for numbers.
int GroupOf(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return 2;
  const auto* real = std::get_if<double>(&value);
  return real != nullptr && std::isnan(*real) ? 1 : 0;
}

// Compares two values of the first group.
bool Less(const Value& a, const Value& b) {
  const auto kind = [](const Value& value) {
    const bool is_text =
        std::holds_alternative<std::string>(value) || std::holds_alternative<Pairs>(value);
    return is_text ? 1 : 2;
  };
  const auto number = [](const Value& value) -> double {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
    return std::get<double>(value);
  };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  if (kind(a) == 1) {
    const auto* x = std::get_if<std::string>(&a);
    const auto* y = std::get_if<std::string>(&b);
    return x != nullptr && y != nullptr ? *x < *y : Plain(a) < Plain(b);
  }
  return number(a) < number(b);
}

absl::Status Sort(Listing* listing, std::string_view key) {
  bool descending = key.starts_with('-');
  if (descending) key.remove_prefix(1);
  ASSIGN_OR_RETURN(const size_t column, ColumnIndex(*listing, key));
  // Older means a smaller timestamp but a larger age.
  if (listing->columns[column].since &&
      absl::EqualsIgnoreCase(listing->columns[column].key, common::ToAbsl(key))) {
    descending = !descending;
  }
  std::stable_sort(listing->rows.begin(), listing->rows.end(), [&](const auto& a, const auto& b) {
    const Value &left = a[column].value, &right = b[column].value;
    if (GroupOf(left) != GroupOf(right)) return GroupOf(left) < GroupOf(right);
    if (GroupOf(left) != 0) return false;
    return descending ? Less(right, left) : Less(left, right);
  });
  return absl::OkStatus();
}

// The columns to print, as indexes.
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

std::string TabLine(const std::vector<std::string>& cells) {
  std::string line;
  for (std::string text : cells) {
    // A tab or newline inside a cell would shift the columns.
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
    StrAppend(&line, text, "\t");
  }
  if (!line.empty()) line.back() = '\n';
  return line;
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& text : cells) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
      line += text;
    } else {
      line += '"';
      for (const char c : text) line += c == '"' ? std::string("\"\"") : std::string(1, c);
      line += '"';
    }
    line += ',';
  }
  if (!line.empty()) line.back() = '\n';
  return line;
}

std::string RowJson(const Listing& listing, const std::vector<Cell>& row,
                    const std::vector<size_t>& chosen) {
  common::JsonObject json;
  for (const size_t column : chosen) {
    json.Add(ValueName(listing.columns[column]), common::JsonText{JsonValue(row[column].value)});
  }
  return json.Text();
}

std::string YamlItem(const Listing& listing, const std::vector<Cell>& row,
                     const std::vector<size_t>& chosen) {
  std::string out;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Value& value = row[chosen[i]].value;
    const auto* text = std::get_if<std::string>(&value);
    StrAppend(&out, i == 0 ? "- " : "  ", ValueName(listing.columns[chosen[i]]), ": ",
              text != nullptr ? YamlQuote(*text) : JsonValue(value), "\n");
  }
  return out;
}

// What precedes all rows. A terminal's table repeats its header in each piece.
std::string Head(const Listing& listing, const std::vector<size_t>& chosen,
                 const ListingOptions& options) {
  if (options.output == "json")
    return common::JsonObject::OfKind(listing.kind).OpenAt("items") + "[";
  if (options.output == "yaml") return StrCat("version: 1\nkind: ", listing.kind, "\nitems:");
  if (!options.headers || options.output == "jsonl" || options.output == "name") return "";
  std::vector<std::string> titles;
  for (const size_t column : chosen) {
    titles.push_back(options.output == "csv" ? ValueName(listing.columns[column])
                                             : ColumnTitle(listing.columns[column]));
  }
  return options.output == "csv" ? CsvLine(titles) : TabLine(titles);
}

std::string RowText(const Listing& listing, const std::vector<Cell>& row,
                    const std::vector<size_t>& chosen, const std::string& output, bool first) {
  if (output == "json") return StrCat(first ? "\n  " : ",\n  ", RowJson(listing, row, chosen));
  if (output == "jsonl") return RowJson(listing, row, chosen) + "\n";
  if (output == "yaml") return StrCat(first ? "\n" : "", YamlItem(listing, row, chosen));
  if (output == "name") return Plain(row[listing.name_column].value) + "\n";
  std::vector<std::string> cells;
  for (const size_t column : chosen)
    cells.push_back(output == "csv" ? Plain(row[column].value) : row[column].text);
  return output == "csv" ? CsvLine(cells) : TabLine(cells);
}

std::string Tail(const std::string& output, bool no_rows) {
  if (output == "json") return no_rows ? "]}\n" : "\n]}\n";
  return output == "yaml" && no_rows ? " []\n" : "";
}

}  // namespace

Cell::Cell(std::string human) : value(human), text(std::move(human)) {}
Cell::Cell(const char* human) : Cell(std::string(human)) {}
Cell::Cell(int64_t number) : value(number), text(std::to_string(number)) {}

std::string JsonValue(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return common::JsonQuote(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* pairs = std::get_if<Pairs>(&value)) {
    common::JsonObject json;
    for (const auto& [key, each] : *pairs) json.Add(key, each);
    return json.Text();
  }
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
  return common::JsonQuote(text);
}

absl::StatusOr<ListingOptions> ListingOptions::From(const Arguments& arguments,
                                                    std::string_view default_output) {
  ListingOptions options;
  options.output = arguments.Get("output", default_output);
  options.columns = arguments.Listed("columns");
  options.filters = arguments.Listed("filter");
  options.sort = arguments.Get("sort");
  options.headers = !arguments.Has("no-headers");
  ASSIGN_OR_RETURN(options.limit, arguments.Number("limit", 0, 1'000'000, 0));
  return options;
}

ListingWriter::ListingWriter(ListingOptions options, const Terminal& terminal)
    : options_(std::move(options)), terminal_(terminal) {}

bool ListingWriter::full() const {
  return options_.sort.empty() && options_.limit > 0 &&
         written_ >= static_cast<size_t>(options_.limit);
}

absl::StatusOr<std::string> ListingWriter::Add(Listing piece) {
  for (const std::string& filter : options_.filters) RETURN_IF_ERROR(Filter(&piece, filter));
  if (options_.sort.empty()) return Write(std::move(piece));
  if (held_.columns.empty()) {
    held_ = std::move(piece);
  } else {
    std::move(piece.rows.begin(), piece.rows.end(), std::back_inserter(held_.rows));
  }
  if (const size_t limit = static_cast<size_t>(options_.limit); limit > 0) {
    RETURN_IF_ERROR(Sort(&held_, options_.sort));
    if (held_.rows.size() > limit) held_.rows.resize(limit);
  }
  if (held_.rows.size() > kSortedRowsMax) {
    return Usage("JC1008", StrCat("more than ", kSortedRowsMax, " rows cannot be sorted"),
                 "add --limit N for the first N of them, or sort the rows elsewhere: -o csv");
  }
  return "";
}

absl::StatusOr<std::string> ListingWriter::Finish() {
  std::string text;
  if (!options_.sort.empty()) {
    RETURN_IF_ERROR(Sort(&held_, options_.sort));
    ASSIGN_OR_RETURN(text, Write(std::move(held_)));
  }
  return text + Tail(options_.output, written_ == 0);
}

absl::StatusOr<std::string> ListingWriter::Write(Listing piece) {
  const size_t limit = static_cast<size_t>(options_.limit);
  const size_t room = limit > 0 ? limit - std::min(limit, written_) : piece.rows.size();
  if (const size_t over = piece.rows.size() - std::min(piece.rows.size(), room); over > 0) {
    const auto count = static_cast<std::ptrdiff_t>(over);
    const auto begin = options_.keep_last ? piece.rows.begin() : piece.rows.end() - count;
    piece.rows.erase(begin, begin + count);
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> chosen, Chosen(piece, options_));
  const bool first = !std::exchange(begun_, true);
  const bool people = options_.output == "table" || options_.output == "wide";
  if (people && terminal_.out_is_tty) {
    written_ += piece.rows.size();
    return first || !piece.rows.empty() ? HumanTable(piece, chosen, options_, terminal_) : "";
  }
  std::string text = first ? Head(piece, chosen, options_) : "";
  for (const std::vector<Cell>& row : piece.rows)
    text += RowText(piece, row, chosen, options_.output, written_++ == 0);
  return text;
}

absl::StatusOr<std::string> RenderListing(Listing listing, const ListingOptions& options,
                                          const Terminal& terminal) {
  ListingWriter writer(options, terminal);
  ASSIGN_OR_RETURN(const std::string text, writer.Add(std::move(listing)));
  ASSIGN_OR_RETURN(const std::string rest, writer.Finish());
  return text + rest;
}

}  // namespace muster::client
