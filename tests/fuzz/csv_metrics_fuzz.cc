// A CSV file of metrics that someone compares a run with, in pieces whose size is the first byte.
#include <algorithm>
#include <optional>

#include "client/compare/csv_metrics.h"
#include "client/compare/csv_rows.h"
#include "fuzz/harness.h"

namespace muster::client {
namespace {

void ReadCsv(std::string_view bytes, size_t piece) {
  const compare::WantedMetrics wanted{.keys = {"loss", "acc*"}};
  compare::PointBudget budget(1 << 20, "");
  compare::RunBuilder builder(wanted, &budget);
  std::optional<CsvMetrics> csv;
  size_t last_line = 0;
  CsvRows rows([&](const std::vector<std::string>& fields, size_t line) -> absl::Status {
    FUZZ_EXPECT(line > last_line && !fields.empty());
    last_line = line;
    if (csv) return csv->AddRow(fields, wanted, &builder);
    absl::StatusOr<CsvMetrics> header = CsvMetrics::FromHeader(fields);
    if (header.ok()) csv = *header;
    return header.status();
  });
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    if (!rows.Feed(bytes.substr(0, piece)).ok()) return;
  }
  if (!rows.Finish().ok()) return;
  const compare::ComparedRun run = builder.Finish("x");
  for (const auto& [name, series] : run.series) {
    for (size_t i = 1; i < series.points().size(); ++i) {
      FUZZ_EXPECT(series.points()[i - 1].step < series.points()[i].step);
    }
  }
}

}  // namespace
}  // namespace muster::client

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  muster::client::ReadCsv(muster::testing::Text(data + 1, size - 1), size_t{data[0]} + 1);
  return 0;
}
