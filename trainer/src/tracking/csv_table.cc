// The table of the CSV tracker; see csv_table.h.
#include "tracking/csv_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "muster/base/errors.h"
#include "tracking/text.h"

namespace muster {
namespace {

constexpr size_t kRowsInMemory = 1'000;
constexpr std::string_view kOwnColumns = "step,time_ms";

bool is_own_column(std::string_view name) { return name == "step" || name == "time_ms"; }

// Source: RFC 4180. Names have no line breaks, so a row is always one line.
void append_field(std::string& row, std::string_view text) {
  if (text.find_first_of(",\"") == text.npos) {
    row += text;
    return;
  }
  row += '"';
  for (const char letter : text) {
    if (letter == '"') row += '"';
    row += letter;
  }
  row += '"';
}

std::vector<std::string> split_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

// Bytes of the file up to and including its last line break.
int64_t whole_lines(const std::string& path, int64_t size) {
  std::ifstream file(path, std::ios::binary);
  for (int64_t end = size; end > 0; --end) {
    file.seekg(end - 1);
    if (file.get() == '\n') return end;
  }
  return 0;
}

}  // namespace

CsvTable::CsvTable(const std::string& path) : path_(path) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const int64_t size = whole_lines(path_, status.st_size);
    if (size > 0) read_header();
    if (size < status.st_size && ::truncate(path_.c_str(), size) != 0) {
      throw_tracker_errno("cut", path_);
    }
  }
  file_.emplace(path_);
}

void CsvTable::read_header() {
  std::ifstream file(path_, std::ios::binary);
  std::string line;
  std::getline(file, line);
  std::vector<std::string> fields = split_fields(line);
  if (fields.size() < 2 || fields[0] != "step" || fields[1] != "time_ms") {
    throw Error(path_ + " is not a metrics table (its first line does not begin with \"" +
                std::string(kOwnColumns) + "\"): move it away or choose another logging_dir");
  }
  columns_.assign(fields.begin() + 2, fields.end());
  for (size_t i = 0; i < columns_.size(); ++i) index_[columns_[i]] = i;
  columns_on_disk_ = columns_.size();
  header_on_disk_ = true;
}

size_t CsvTable::column_of(const std::string& given) {
  const std::string name = is_own_column(given) ? given + ".1" : given;
  const auto found = index_.find(name);
  if (found != index_.end()) return found->second;
  if (columns_.size() == kCsvColumnsMax) {
    throw Error(path_ + " has " + std::to_string(kCsvColumnsMax) + " columns; \"" + name +
                "\" would be one more. Does a name contain the step number?");
  }
  columns_.push_back(name);
  index_[name] = columns_.size() - 1;
  return columns_.size() - 1;
}

void CsvTable::add(int64_t step, int64_t time_ms, const std::string& name, double value) {
  const size_t column = column_of(name);
  const auto is_taken = [&] {
    return column < open_->cells.size() && open_->cells[column].has_value();
  };
  if (open_ && (open_->step != step || is_taken())) {
    done_.push_back(std::move(*open_));
    open_.reset();
    if (done_.size() >= kRowsInMemory) flush();
  }
  if (!open_) open_ = Row{step, time_ms, {}};
  if (open_->cells.size() <= column) open_->cells.resize(columns_.size());
  open_->cells[column] = value;
}

std::string CsvTable::header() const {
  std::string line(kOwnColumns);
  for (const std::string& name : columns_) {
    line += ',';
    append_field(line, name);
  }
  return line + "\n";
}

std::string CsvTable::render(const Row& row) const {
  std::string line = std::to_string(row.step) + "," + std::to_string(row.time_ms);
  for (size_t column = 0; column < columns_.size(); ++column) {
    line += ',';
    if (column < row.cells.size() && row.cells[column]) append_number(line, *row.cells[column]);
  }
  return line + "\n";
}

// Rewrites the file with a new header, pads its rows with empty cells, and renames it into place.
void CsvTable::rewrite() {
  const std::string temporary = path_ + ".tmp";
  try {
    ::unlink(temporary.c_str());
    AppendFile wider(temporary);
    wider.buffer() = header();
    const std::string fill(columns_.size() - columns_on_disk_, ',');
    std::ifstream old(path_, std::ios::binary);
    std::string line;
    std::getline(old, line);
    while (std::getline(old, line)) {
      wider.buffer() += line + fill + "\n";
      wider.record_is_complete();
    }
    // Replace only a file that was read completely.
    if (!old.eof() || old.bad()) throw Error("cannot read all of " + path_);
    wider.finish();
    if (::rename(temporary.c_str(), path_.c_str()) != 0) throw_tracker_errno("rename", temporary);
    file_.emplace(path_);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  columns_on_disk_ = columns_.size();
}

void CsvTable::flush() {
  if (done_.empty()) return;
  // Taken first, so that rows that cannot be written are dropped instead of accumulating.
  const std::vector<Row> rows = std::move(done_);
  done_.clear();
  if (header_on_disk_ && columns_on_disk_ < columns_.size()) rewrite();
  const size_t columns = columns_.size();
  if (!header_on_disk_) file_->buffer() = header();
  for (const Row& row : rows) file_->buffer() += render(row);
  file_->flush();
  header_on_disk_ = true;
  columns_on_disk_ = columns;
}

void CsvTable::finish() {
  if (open_) done_.push_back(std::move(*open_));
  open_.reset();
  flush();
  file_->finish();
}

}  // namespace muster
