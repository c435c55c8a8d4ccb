// A CSV file of metrics whose columns may become more; its form is in muster/tracking/tracker.h. One thread.
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
  // Goes on in the file that is there; half a row at its end is cut off. Throws muster::Error when
  // it is none of these tables.
  explicit CsvTable(const std::string& path);

  // One cell. It goes into the open row when that is of the same step and has none in this column;
  // else a new row begins. Throws muster::Error when the name needs a column too many.
  void add(int64_t step, int64_t time_ms, const std::string& name, double value);
  // Writes the rows that are done; the open one is kept.
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
  std::vector<std::string> columns_;  // names, behind step and time_ms
  std::unordered_map<std::string, size_t> index_;
  size_t columns_on_disk_ = 0;
  bool header_on_disk_ = false;
  std::optional<Row> open_;
  std::vector<Row> done_;
};

}  // namespace muster
