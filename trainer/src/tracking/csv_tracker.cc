// The CSV tracker: the lock around a table; see muster/tracking/tracker.h.
#include <optional>
#include <stdexcept>

#include "muster/tracking/tracker.h"
#include "tracking/append_file.h"
#include "tracking/csv_table.h"
#include "tracking/run_directory.h"
#include "tracking/text.h"
#include "tracking/trainer_lines.h"

namespace muster {

struct CsvTracker::Table {
  std::string logging_dir;
  std::optional<CsvTable> csv;
};

CsvTracker::CsvTracker(TrackerDirectory directory) : table_(std::make_unique<Table>()) {
  table_->logging_dir = std::move(directory.path);
}

CsvTracker::~CsvTracker() = default;

void CsvTracker::start(const Run& run) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string directory = make_tracker_directory(run_directory(table_->logging_dir, run));
  table_->csv.emplace(directory + "/metrics.csv");
}

void CsvTracker::scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!table_->csv) throw std::logic_error("the csv tracker was not started");
  for (const ScalarValue& value : values) {
    table_->csv->add(step, to_time_ms(wall_time), clean_metric_name(value.name), value.value);
  }
}

void CsvTracker::flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (table_->csv) table_->csv->flush();
}

void CsvTracker::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!table_->csv) return;
  CsvTable csv = std::move(*table_->csv);
  table_->csv.reset();
  csv.finish();
}

}  // namespace muster
