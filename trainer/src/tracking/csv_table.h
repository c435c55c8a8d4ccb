// A CSV file of metrics to which columns can be added; muster/tracking/tracker.h has its format.
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracking/append_file.h"

namespace muster {

inline constexpr size_t kCsvColumnsMax = 1'000;

class CsvTable {
 public:
  // Continues an existing file, truncating a partial row at its end. Throws muster::Error if it is
  // not such a table.
  explicit CsvTable(const std::string& path);

  // Adds a cell to the open row if that has the same step and no value in this column; otherwise
  // starts a new row. Throws muster::Error if the name would exceed the column limit.
  void add(int64_t step, int64_t time_ms, const std::string& name, double value);
  // Writes the finished rows; keeps the open one.
  void flush();
  // Writes all rows and makes them durable.
  void finish();

 private:
  struct Row {
    int64_t step;
    int64_t time_ms;
    std::vector<std::optional<double>> cells;  // by column; missing ones at the end are empty
  };

  void read_header();
  size_t column_of(const std::string& name);
  std::string header() const;
  void rewrite();
  std::string render(const Row& row) const;

  std::string path_;
  std::optional<AppendFile> file_;
  std::vector<std::string> columns_;  // names, after step and time_ms
  std::unordered_map<std::string, size_t> index_;
  size_t columns_on_disk_ = 0;
  bool header_on_disk_ = false;
  std::optional<Row> open_;
  std::vector<Row> done_;
};

}  // namespace muster
