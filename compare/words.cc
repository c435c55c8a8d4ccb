#include "compare/words.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::compare {
namespace {

using common::Counted;
using common::StrAppend;
using common::StrCat;

constexpr uint64_t kRowsShown = 40;

void AddPast(const Comparison& pair, By by, std::vector<std::string>& lines) {
  const Differences& all = pair.differences;
  if (all.first_past) {
    const Row& row = *all.first_past;
    lines.push_back(StrCat("first past the limit: ", NameOf(by), " ", row.at, " (",
                           PeopleNumber(row.baseline), " and ", PeopleNumber(row.value), ", rel ",
                           PeoplePercent(row.rel), ")"));
  }
  if (by == By::kEpoch && pair.first_step_past) {
    const Row& row = *pair.first_step_past;
    lines.push_back(StrCat("first step past it: ", row.at, " (rel ", PeoplePercent(row.rel),
                           all.past == 0 ? "; the epochs decide)" : ")"));
  }
}

void AddLeftOut(const Comparison& pair, std::string_view unit, std::vector<std::string>& lines) {
  const Differences& all = pair.differences;
  if (all.not_finite > 0) {
    lines.push_back(StrCat(Counted(all.not_finite, unit), " with NaN or infinity"));
  }
  if (all.zero_baseline > 0) {
    lines.push_back(
        StrCat(Counted(all.zero_baseline, unit), " with a baseline of 0: no relative difference"));
  }
  if (all.only_baseline + all.only_run > 0) {
    lines.push_back(StrCat("left out: ", Counted(all.only_baseline, unit), " that only ",
                           pair.baseline_name, " has, ", Counted(all.only_run, unit), " that only ",
                           pair.run_name, " has"));
  }
}

}  // namespace

std::string PeopleNumber(double value) { return absl::StrFormat("%.6g", value); }

std::string PeoplePercent(double share) { return absl::StrFormat("%.4g%%", 100 * share); }

std::string RowNumber(double value) { return absl::StrFormat("%.9g", value); }

std::string LimitText(const Limit& limit) {
  if (!limit.given) return "none: only NaN and infinity are past it";
  if (limit.atol == 0) return StrCat("|a-b| <= ", PeoplePercent(limit.rtol), " of |baseline|");
  return StrCat("|a-b| <= ", PeopleNumber(limit.atol), " + ", PeoplePercent(limit.rtol),
                " of |baseline|");
}

std::string_view VerdictOf(const Comparison& pair, const Limit& limit) {
  if (pair.differences.past > 0) return "FAIL";
  return limit.given ? "PASS" : "not judged";
}

std::string HeadOf(const Comparison& pair, By by) {
  const Differences& all = pair.differences;
  std::string head = StrCat(pair.key, " of ", pair.run_name, " against ", pair.baseline_name, ": ",
                            Counted(all.compared, NameOf(by)));
  if (all.past > 0) StrAppend(&head, ", ", all.past, " past the limit");
  return head;
}

std::vector<std::string> SummaryOf(const Comparison& pair, const ComparisonSetup& setup) {
  const Differences& all = pair.differences;
  const std::string_view unit = NameOf(setup.by);
  std::vector<std::string> lines;
  if (all.compared > all.not_finite) {
    lines.push_back(
        StrCat("mean  abs ", PeopleNumber(all.mean_abs), "  rel ", PeoplePercent(all.mean_rel)));
  }
  if (all.largest_rel) {
    lines.push_back(StrCat("max   rel ", PeoplePercent(all.largest_rel->rel), " at ", unit, " ",
                           all.largest_rel->at, "  abs ", PeopleNumber(all.largest_abs->abs),
                           " at ", unit, " ", all.largest_abs->at));
  }
  lines.push_back(StrCat("limit ", LimitText(setup.limit)));
  AddPast(pair, setup.by, lines);
  AddLeftOut(pair, unit, lines);
  return lines;
}

std::vector<Row> ShownRows(const Comparison& pair, const Limit& limit) {
  const Differences& all = pair.differences;
  const uint64_t every = std::max<uint64_t>(1, (all.compared + kRowsShown - 1) / kRowsShown);
  const auto matters = [&all](const Row& row) {
    const auto is = [&row](const std::optional<Row>& one) { return one && one->at == row.at; };
    return is(all.first_past) || is(all.largest_abs) || is(all.largest_rel);
  };
  std::vector<Row> rows;
  uint64_t index = 0;
  Compare(pair.baseline, pair.run, limit, [&](const Row& row) {
    if (index % every == 0 || index + 1 == all.compared || matters(row)) rows.push_back(row);
    ++index;
  });
  return rows;
}

}  // namespace muster::compare
