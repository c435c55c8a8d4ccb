// An attempt's metrics in the coordinator's data directory after damage: the bytes as they are, and
// as pieces that become records with good checksums.
#include "common/crc32c.h"
#include "coordinator/local/metric_segment.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

void ReadAll(const testing::Directory& directory, std::string_view bytes) {
  directory.Write("segment", bytes);
  MetricSegmentReader reader(directory.Path("segment"));
  v1::MetricBatch batch;
  for (uint64_t before = 0;; before = reader.SoundBytes()) {
    const absl::StatusOr<bool> found = reader.Next(batch);
    FUZZ_EXPECT(found.ok());
    if (!*found) break;
    FUZZ_EXPECT(reader.SoundBytes() > before && reader.SoundBytes() <= bytes.size());
  }
}

std::string SoundRecords(std::string_view bytes) {
  std::string records;
  testing::Pieces pieces(bytes);
  for (std::string_view body; pieces.Next(&body);) {
    const uint32_t header[2] = {static_cast<uint32_t>(body.size()), common::Crc32c(body)};
    records.append(reinterpret_cast<const char*>(header), sizeof header);
    records.append(body);
  }
  return records;
}

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const muster::testing::Directory directory;
  const std::string_view bytes = muster::testing::Text(data, size);
  muster::coordinator::ReadAll(directory, bytes);
  muster::coordinator::ReadAll(directory, muster::coordinator::SoundRecords(bytes));
  return 0;
}
