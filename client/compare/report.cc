#include "client/compare/report.h"

#include <algorithm>

#include "client/compare/csv_rows.h"
#include "client/terminal/listing.h"
#include "common/base/status.h"
#include "common/text/exact_number.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "compare/words.h"

namespace muster::client {
namespace {

using common::JsonObject;
using common::JsonText;
using common::StrAppend;
using common::StrCat;
using compare::By;
using compare::Compare;
using compare::Comparison;
using compare::ComparisonSetup;
using compare::Differences;
using compare::NameOf;
using compare::PeopleNumber;
using compare::PeoplePercent;
using compare::Row;

constexpr size_t kRowsInPiece = 5'000;
constexpr size_t kPrintBytes = 64 * 1024;
constexpr size_t kFieldsShown = 12;
constexpr size_t kValueShown = 60;

Cell Exact(double value) { return Cell(Value(value), compare::RowNumber(value)); }

JsonObject& AddRow(JsonObject& json, const Row& row, By by) {
  return json.Add(NameOf(by), row.at)
      .Add("baseline", row.baseline)
      .Add("value", row.value)
      .Add("abs", row.abs)
      .Add("rel", row.rel)
      .Add("past", row.past);
}

JsonText JsonRow(const Row& row, By by) {
  JsonObject json;
  return AddRow(json, row, by).Done();
}

JsonText JsonRowOrNull(const std::optional<Row>& row, By by) {
  return row ? JsonRow(*row, by) : common::JsonNull();
}

JsonText JsonVerdict(bool passes, const ComparisonSetup& setup) {
  if (!passes) return common::ToJson("fail");
  return setup.limit.given ? common::ToJson("pass") : common::JsonNull();
}

void AddSummary(JsonObject& json, const Comparison& pair, const ComparisonSetup& setup) {
  const Differences& all = pair.differences;
  json.Add("compared", all.compared)
      .Add("left_out_of_baseline", all.only_baseline)
      .Add("left_out_of_run", all.only_run)
      .Add("not_finite", all.not_finite)
      .Add("zero_baseline", all.zero_baseline)
      .Add("past", all.past)
      .Add("mean_abs", all.mean_abs)
      .Add("mean_rel", all.mean_rel)
      .Add("largest_abs", JsonRowOrNull(all.largest_abs, setup.by))
      .Add("largest_rel", JsonRowOrNull(all.largest_rel, setup.by))
      .Add("first_past", JsonRowOrNull(all.first_past, setup.by))
      .Add("first_step_past", JsonRowOrNull(pair.first_step_past, By::kStep))
      .Add("verdict", JsonVerdict(all.past == 0, setup));
}

// How many bytes both begin with.
size_t LengthAlike(const std::string& a, const std::string& b) {
  const size_t both = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + both, b.begin()).first - a.begin();
}

// A value for people: of one that does not fit, the part that differs, which begins after `alike` bytes.
std::string ShownValue(const std::optional<std::string>& value, size_t alike) {
  if (!value) return "none";
  if (alike < kValueShown / 2) return Shorten(common::Printable(*value), kValueShown);
  size_t begin = alike - kValueShown / 4;
  while ((static_cast<unsigned char>((*value)[begin]) & 0xC0) == 0x80) --begin;
  const std::string shown = StrCat("…", common::Printable(value->substr(begin)));
  return DisplayWidth(*value) <= kValueShown ? *value : Shorten(shown, kValueShown);
}

}  // namespace

absl::Status ComparisonReport::Print(std::span<const Comparison> comparisons,
                                     std::span<const RunDifference> configurations) {
  for (const Comparison& pair : comparisons) {
    several_keys_ |= pair.key != comparisons[0].key;
    several_runs_ |= pair.run_name != comparisons[0].run_name;
  }
  if (output_.format == "json") {
    PrintJson(comparisons, configurations);
    return absl::OkStatus();
  }
  for (const Comparison& pair : comparisons) {
    if (output_.format == "jsonl") {
      PrintJsonLines(pair);
    } else if (output_.format == "csv") {
      PrintCsv(pair);
    } else {
      RETURN_IF_ERROR(PrintTable(pair));
    }
    if (output_.format != "table" || output_.terminal.out_is_tty) PrintSummary(pair);
  }
  // In a pipe the rows form one table, and the summaries follow it.
  if (output_.format == "table" && !output_.terminal.out_is_tty) {
    for (const Comparison& pair : comparisons) PrintSummary(pair);
  }
  PrintConfigurations(configurations);
  return absl::OkStatus();
}

absl::Status ComparisonReport::PrintTable(const Comparison& pair) {
  Listing listing;
  listing.kind = "Comparison";
  // A table has one metric and one run: cut, they could look like those of the table above.
  listing.columns = {{.key = "metric", .wide = !several_keys_},
                     {.key = "run", .wide = !several_runs_},
                     {.key = std::string(NameOf(setup_.by)), .right = true},
                     {.key = "baseline", .right = true},
                     {.key = "value", .right = true},
                     {.key = "abs", .right = true, .spare = 1},
                     {.key = "rel", .right = true},
                     {.key = "limit", .wide = !setup_.limit.given}};
  ListingWriter writer({.output = "table", .headers = !headers_printed_}, output_.terminal);
  if (!output_.terminal.out_is_tty) headers_printed_ = true;
  absl::Status failed;
  const auto print = [&] {
    const absl::StatusOr<std::string> text = writer.Add(listing);
    failed.Update(text.status());
    if (text.ok()) output_.print(*text);
    listing.rows.clear();
  };
  const auto add = [&](const Row& row) {
    listing.rows.push_back({Cell(pair.key), Cell(pair.run_name), Cell(row.at), Exact(row.baseline),
                            Exact(row.value), Cell(PeopleNumber(row.abs)),
                            Cell(PeoplePercent(row.rel)), Cell(row.past ? "PAST" : "ok")});
  };
  if (output_.terminal.out_is_tty) {
    for (const Row& row : compare::ShownRows(pair, setup_.limit)) add(row);
  } else {
    Compare(pair.baseline, pair.run, setup_.limit, [&](const Row& row) {
      add(row);
      if (listing.rows.size() >= kRowsInPiece) print();
    });
  }
  print();
  return failed;
}

void ComparisonReport::Line(const std::string& text) {
  const std::string safe = common::Printable(text);
  if (output_.format == "table") {
    output_.print(safe + "\n");
  } else {
    output_.note(safe);
  }
}

void ComparisonReport::PrintSummary(const Comparison& pair) {
  Line(StrCat(compare::VerdictOf(pair, setup_.limit), "  ", compare::HeadOf(pair, setup_.by)));
  for (const std::string& line : compare::SummaryOf(pair, setup_)) Line("  " + line);
}

void ComparisonReport::PrintConfigurations(std::span<const RunDifference> configurations) {
  for (const RunDifference& each : configurations) {
    if (each.fields.empty()) continue;
    Line(StrCat("configuration of ", each.run, " that differs:"));
    size_t shown = 0;
    for (const ConfigurationDifference& field : each.fields) {
      if (shown++ == kFieldsShown) {
        Line(StrCat("  … and ", each.fields.size() - kFieldsShown, " more: jobctl diff"));
        break;
      }
      const size_t alike = LengthAlike(field.a.value_or(""), field.b.value_or(""));
      Line(StrCat("  ", field.field, ": ", ShownValue(field.a, alike), " → ",
                  ShownValue(field.b, alike)));
    }
  }
}

void ComparisonReport::PrintJson(std::span<const Comparison> comparisons,
                                 std::span<const RunDifference> configurations) {
  bool passes = true;
  JsonText limit = common::JsonNull();
  if (setup_.limit.given) {
    limit = JsonObject().Add("rtol", setup_.limit.rtol).Add("atol", setup_.limit.atol).Done();
  }
  JsonObject head = JsonObject::OfKind("Comparison");
  head.Add("by", NameOf(setup_.by)).Add("baseline", comparisons[0].baseline_name);
  std::string out = head.Add("limit", limit).OpenAt("comparisons") + "[";
  for (size_t i = 0; i < comparisons.size(); ++i) {
    const Comparison& pair = comparisons[i];
    passes = passes && pair.differences.past == 0;
    JsonObject of_pair;
    AddSummary(of_pair.Add("metric", pair.key).Add("run", pair.run_name), pair, setup_);
    StrAppend(&out, i == 0 ? "\n " : ",\n ", of_pair.OpenAt("rows"), "[");
    bool first = true;
    Compare(pair.baseline, pair.run, setup_.limit, [&](const Row& row) {
      out += first ? "\n  " : ",\n  ";
      JsonObject line;
      AddRow(line, row, setup_.by).AppendTo(&out);
      first = false;
      if (out.size() < kPrintBytes) return;
      output_.print(out);
      out.clear();
    });
    out += "]}";
  }
  common::JsonArray fields("\n  ");
  for (const RunDifference& each : configurations) {
    for (const ConfigurationDifference& field : each.fields) {
      fields.Add(JsonObject()
                     .Add("run", each.run)
                     .Add("field", field.field)
                     .Add("baseline", field.a)
                     .Add("value", field.b)
                     .Done());
    }
  }
  JsonObject tail;
  tail.Add("configuration", fields.Done()).AddLine("verdict", JsonVerdict(passes, setup_));
  StrAppend(&out, "],\n ", tail.Line().substr(1));
  output_.print(out);
}

void ComparisonReport::PrintJsonLines(const Comparison& pair) {
  JsonObject head;
  head.Add("metric", pair.key).Add("run", pair.run_name);
  std::string out;
  Compare(pair.baseline, pair.run, setup_.limit, [&](const Row& row) {
    JsonObject line(head);
    AddRow(line, row, setup_.by).AppendLine(&out);
    if (out.size() < kPrintBytes) return;
    output_.print(out);
    out.clear();
  });
  output_.print(out);
}

void ComparisonReport::PrintCsv(const Comparison& pair) {
  std::string out;
  if (!headers_printed_) {
    out = StrCat("metric,run,", NameOf(setup_.by), ",baseline,value,abs,rel,past\n");
  }
  headers_printed_ = true;
  const std::string head = StrCat(CsvField(pair.key), ",", CsvField(pair.run_name), ",");
  Compare(pair.baseline, pair.run, setup_.limit, [&](const Row& row) {
    StrAppend(&out, head, row.at, ",", common::ExactNumber(row.baseline), ",",
              common::ExactNumber(row.value), ",", common::ExactNumber(row.abs), ",",
              common::ExactNumber(row.rel), ",", row.past ? "true\n" : "false\n");
    if (out.size() < kPrintBytes) return;
    output_.print(out);
    out.clear();
  });
  output_.print(out);
}

}  // namespace muster::client
