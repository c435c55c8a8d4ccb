// The one implementation of every listing: rows of typed cells, printed as table, wide, json,
// jsonl, yaml, csv or name, after --columns, --filter, --sort and --limit. Pure.
//
// For people (table, wide) a cell shows its text; for programs (json, jsonl, yaml, csv) its value,
// under the column's key. In a pipe the table is tab-separated, untruncated and uncoloured.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/json_quote.h"
#include "client/terminal.h"

namespace muster::client {

class Arguments;

using Value = std::variant<std::monostate, std::string, int64_t, double, bool>;

struct Cell {
  Cell() = default;
  Cell(std::string text);  // NOLINT: a cell is written like its value
  Cell(const char* text);  // NOLINT
  Cell(int64_t number);    // NOLINT
  Cell(Value machine, std::string human) : value(std::move(machine)), text(std::move(human)) {}

  Value value;
  std::string text;
};

struct Column {
  std::string key;      // "state"; the header is its upper case
  bool wide = false;    // only with -o wide and for programs
  bool right = false;   // numbers stand right
  bool shrink = false;  // may be shortened to fit the terminal
  bool wrap = false;    // the last column only: goes on in the next line instead
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
  static absl::StatusOr<ListingOptions> From(const Arguments& arguments,
                                             std::string_view default_output);
};

// Errors: JC1008 for columns and keys that do not exist.
absl::StatusOr<std::string> RenderListing(Listing listing, const ListingOptions& options,
                                          const Terminal& terminal);

std::string JsonValue(const Value& value);
// A YAML scalar that reads back as the same string.
std::string YamlQuote(std::string_view text);

}  // namespace muster::client
