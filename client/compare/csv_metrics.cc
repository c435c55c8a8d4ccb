#include "client/compare/csv_metrics.h"

#include <cmath>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;
using common::ToAbsl;

// The column of the first of these names that the header has, ignoring case.
int ColumnNamed(const std::vector<std::string>& header,
                std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (size_t i = 0; i < header.size(); ++i) {
      if (absl::EqualsIgnoreCase(header[i], ToAbsl(name))) return static_cast<int>(i);
    }
  }
  return -1;
}

const std::string* FieldAt(const std::vector<std::string>& fields, int column) {
  const bool is_there = column >= 0 && static_cast<size_t>(column) < fields.size();
  return is_there ? &fields[column] : nullptr;
}

// "120", also "120.0" as spreadsheets and pandas write it.
absl::StatusOr<int64_t> WholeNumber(const std::string& text, std::string_view what) {
  int64_t whole = 0;
  if (absl::SimpleAtoi(text, &whole)) return whole;
  double number = 0;
  if (absl::SimpleAtod(text, &number) && number == std::trunc(number) && std::abs(number) < 1e15) {
    return static_cast<int64_t>(number);
  }
  return absl::InvalidArgumentError(
      StrCat("the ", what, " \"", common::Printable(text), "\" is not a whole number"));
}

absl::Status AddValue(const std::string& name, int64_t rank, int64_t step, const std::string& text,
                      const compare::WantedMetrics& wanted, compare::RunBuilder* run) {
  run->Know(name);
  if (text.empty() || !compare::IsWanted(name, wanted)) return absl::OkStatus();
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) {
    return absl::InvalidArgumentError(StrCat("the value \"", common::Printable(text), "\" of ",
                                             common::Printable(name), " is not a number"));
  }
  return run->Add(name, rank, step, value);
}

}  // namespace

absl::StatusOr<CsvMetrics> CsvMetrics::FromHeader(const std::vector<std::string>& header_row) {
  std::vector<std::string> header = header_row;
  for (std::string& name : header) absl::StripAsciiWhitespace(&name);
  CsvMetrics csv;
  csv.step_ = ColumnNamed(header, {"step", "global_step", "iteration", "epoch"});
  if (csv.step_ < 0) {
    return absl::InvalidArgumentError(
        "the first line has no column \"step\" (or global_step, iteration, epoch)");
  }
  csv.rank_ = ColumnNamed(header, {"rank"});
  csv.job_ = ColumnNamed(header, {"job"});
  csv.name_ = ColumnNamed(header, {"name", "metric", "key", "tag"});
  csv.value_ = ColumnNamed(header, {"value"});
  if (csv.name_ >= 0 && csv.value_ >= 0) return csv;
  csv.name_ = csv.value_ = -1;
  csv.metrics_ = header;
  for (const int other : {csv.step_, csv.rank_, csv.job_, ColumnNamed(header, {"wall time"}),
                          ColumnNamed(header, {"time_ms"}), ColumnNamed(header, {"attempt"})}) {
    if (other >= 0) csv.metrics_[other].clear();
  }
  return csv;
}

std::string CsvMetrics::JobOf(const std::vector<std::string>& fields) const {
  const std::string* job = FieldAt(fields, job_);
  return job == nullptr ? "" : *job;
}

absl::Status CsvMetrics::AddRow(const std::vector<std::string>& fields,
                                const compare::WantedMetrics& wanted,
                                compare::RunBuilder* run) const {
  const std::string* step_text = FieldAt(fields, step_);
  if (step_text == nullptr) return absl::InvalidArgumentError("there is no step");
  ASSIGN_OR_RETURN(const int64_t step, WholeNumber(*step_text, "step"));
  int64_t rank = 0;
  if (const std::string* text = FieldAt(fields, rank_); text != nullptr && !text->empty()) {
    ASSIGN_OR_RETURN(rank, WholeNumber(*text, "rank"));
  }
  if (name_ >= 0) {
    const std::string* name = FieldAt(fields, name_);
    const std::string* value = FieldAt(fields, value_);
    if (name == nullptr || value == nullptr) {
      return absl::InvalidArgumentError("there is no name or no value");
    }
    return AddValue(*name, rank, step, *value, wanted, run);
  }
  for (size_t i = 0; i < metrics_.size() && i < fields.size(); ++i) {
    if (metrics_[i].empty()) continue;
    RETURN_IF_ERROR(AddValue(metrics_[i], rank, step, fields[i], wanted, run));
  }
  return absl::OkStatus();
}

}  // namespace muster::client
