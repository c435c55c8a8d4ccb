#include "coordinator/curves/comparison_message.h"

#include <string>

#include "compare/words.h"

namespace muster::coordinator {
namespace {

void Fill(const compare::Row& row, v1::ComparedRow& message) {
  message.set_at(row.at);
  message.set_baseline(row.baseline);
  message.set_value(row.value);
  message.set_abs(row.abs);
  message.set_rel(row.rel);
  message.set_past(row.past);
}

void FillRows(const compare::Comparison& pair, const compare::Limit& limit,
              v1::JobComparison& message) {
  for (const compare::Row& row : compare::ShownRows(pair, limit)) {
    v1::ComparedRow& shown = *message.add_rows();
    Fill(row, shown);
    shown.add_texts(compare::RowNumber(row.baseline));
    shown.add_texts(compare::RowNumber(row.value));
    shown.add_texts(compare::PeopleNumber(row.abs));
    shown.add_texts(compare::PeoplePercent(row.rel));
  }
}

}  // namespace

v1::CompareBy CompareByOf(compare::By by) {
  return by == compare::By::kStep ? v1::COMPARE_BY_STEP : v1::COMPARE_BY_EPOCH;
}

v1::JobComparison MessageOf(const compare::Comparison& pair,
                            const compare::ComparisonSetup& setup) {
  const compare::Differences& all = pair.differences;
  v1::JobComparison message;
  message.set_verdict(std::string(compare::VerdictOf(pair, setup.limit)));
  message.set_head(compare::HeadOf(pair, setup.by));
  for (std::string& line : compare::SummaryOf(pair, setup)) message.add_lines(std::move(line));
  message.set_compared(all.compared);
  message.set_only_baseline(all.only_baseline);
  message.set_only_job(all.only_run);
  message.set_past(all.past);
  message.set_not_finite(all.not_finite);
  message.set_zero_baseline(all.zero_baseline);
  message.set_mean_abs(all.mean_abs);
  message.set_mean_rel(all.mean_rel);
  if (all.largest_abs) Fill(*all.largest_abs, *message.mutable_largest_abs());
  if (all.largest_rel) Fill(*all.largest_rel, *message.mutable_largest_rel());
  if (all.first_past) Fill(*all.first_past, *message.mutable_first_past());
  if (pair.first_step_past) Fill(*pair.first_step_past, *message.mutable_first_step_past());
  FillRows(pair, setup.limit, message);
  return message;
}

}  // namespace muster::coordinator
