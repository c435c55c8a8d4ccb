// What ranks recorded about one moment, a piece per rank, and what jobctl stack makes of it.
#include <utility>
#include <vector>

#include "client/diagnosis/hang_report.h"
#include "client/diagnosis/rank_record.h"
#include "fuzz/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::vector<client::RankRecord> records;
  testing::Pieces input(testing::Text(data, size));
  for (std::string_view json; input.Next(&json) && records.size() < 16;) {
    absl::StatusOr<client::RankRecord> record = client::ParseRankRecord(json);
    if (!record.ok()) continue;
    client::StacksText(*record);
    record->rank = static_cast<int>(records.size());  // jobctl has one per rank
    records.push_back(*std::move(record));
  }
  client::MakeHangReport(static_cast<int>(records.size()) + 1, std::move(records));
  return 0;
}
