// What the columns of a CSV file of metrics mean: a column for each metric, or rows of step, name and
// value. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/run.h"

namespace muster::client {

class CsvMetrics {
 public:
  // `header`: the first row. INVALID_ARGUMENT, without a code, if it has no step.
  static absl::StatusOr<CsvMetrics> FromHeader(const std::vector<std::string>& header);
  // INVALID_ARGUMENT, without a code, if a step or a wanted value is malformed.
  absl::Status AddRow(const std::vector<std::string>& fields, const compare::WantedMetrics& wanted,
                      compare::RunBuilder* run) const;
  // The job that the row is of, as `jobctl export` writes it; empty: the file does not say.
  std::string JobOf(const std::vector<std::string>& fields) const;
  // By column, if each column is a metric; otherwise empty.
  const std::vector<std::string>& metrics() const { return metrics_; }

 private:
  std::vector<std::string> metrics_;  // by column; empty: not a metric
  int step_ = -1;                     // columns; -1: there is none
  int rank_ = -1;
  int job_ = -1;
  int name_ = -1;
  int value_ = -1;
};

}  // namespace muster::client
