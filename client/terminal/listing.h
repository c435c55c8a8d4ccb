// The one implementation of every listing: rows of typed cells, printed as table, wide, json,
// jsonl, yaml, csv or name, after --columns, --filter, --sort and --limit. Pure.
//
// For people (table, wide) a cell shows its text; for programs (json, jsonl, yaml, csv) its value,
// under the column's key or a separate name: people read AGE, programs `submitted_ms`. In a pipe
// the table is tab-separated, untruncated and uncolored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/terminal/terminal.h"
#include "common/text/json_text.h"

namespace muster::client {

class Arguments;

// Pairs: an object in JSON and YAML, "a=1,b=2" in csv.
using Pairs = std::map<std::string, std::string>;
using Value = std::variant<std::monostate, std::string, int64_t, double, bool, Pairs>;

struct Cell {
  Cell() = default;
  Cell(std::string text);  // NOLINT: implicit, so that cells read like values
  Cell(const char* text);  // NOLINT
  Cell(int64_t number);    // NOLINT
  Cell(Value machine, std::string human) : value(std::move(machine)), text(std::move(human)) {}

  Value value;
  std::string text;
};

struct Column {
  std::string key;      // "state"; the header is its upper case
  bool wide = false;    // only for -o wide and for programs
  bool right = false;   // right-aligned, for numbers
  bool shrink = false;  // may be shortened to fit the terminal
  bool wrap = false;    // last column only: wraps to the next line instead
  // Names: shortened in the middle, and never so far that two of them look alike.
  bool names = false;
  // Names separated by commas: shows as many whole names as fit, and the number of the others.
  bool list = false;
  bool curve = false;  // one character per point: a narrow terminal gets fewer points
  // On a narrow terminal these columns are dropped before names are shortened: the highest first, never 0.
  int spare = 0;
  // Name of the value for programs, with its unit, if it differs from what people read.
  std::string value_name = {};
  // The value is a timestamp, the text the time since: the largest `key` is the smallest value.
  bool since = false;
};

struct Listing {
  std::string kind;  // "JobList"
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  size_t name_column = 0;  // what -o name prints
};

struct ListingOptions {
  std::string output = "table";
  std::vector<std::string> columns;
  std::vector<std::string> filters;  // "k=v" or "k!=v"
  std::string sort;                  // "key" or "-key"
  bool headers = true;
  int64_t limit = 0;  // 0: all
  // The limit keeps the last rows instead of the first: for a listing that is available as a whole.
  bool keep_last = false;
  static absl::StatusOr<ListingOptions> From(const Arguments& arguments,
                                             std::string_view default_output);
};

// A listing that arrives and is printed in pieces, so that memory does not grow with it. Sorting
// needs all rows (at most kSortedRowsMax) or, with a limit, as many as will be printed.
class ListingWriter {
 public:
  static constexpr size_t kSortedRowsMax = 100'000;

  ListingWriter(ListingOptions options, const Terminal& terminal);
  // What to print now. All pieces have the same columns; the first may have no rows. Errors: JC1008
  // for columns and keys that do not exist, and for too many rows to sort.
  absl::StatusOr<std::string> Add(Listing piece);
  // Call it after the last piece; at least one must have been added.
  absl::StatusOr<std::string> Finish();
  // The limit is reached: further pieces print nothing.
  bool full() const;
  // Rows that were printed.
  size_t written() const { return written_; }

 private:
  absl::StatusOr<std::string> Write(Listing piece);

  const ListingOptions options_;
  const Terminal terminal_;
  Listing held_;  // with --sort
  size_t written_ = 0;
  bool begun_ = false;
};

// A listing that is available as a whole. Errors: JC1008.
absl::StatusOr<std::string> RenderListing(Listing listing, const ListingOptions& options,
                                          const Terminal& terminal);

std::string JsonValue(const Value& value);
// A YAML scalar that reads back as the same string.
std::string YamlQuote(std::string_view text);

}  // namespace muster::client
