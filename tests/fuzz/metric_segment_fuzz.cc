// An attempt's metrics in the coordinator's data directory after damage: the bytes as they are
// behind a sound head, and as pieces that become records with sound checksums.
#include "common/hash/crc32c.h"
#include "coordinator/segments/files.h"
#include "coordinator/store_parts/segment_metrics.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

constexpr uint64_t kSalt = 7;

std::string Head() {
  const std::string head =
      EncodeSegmentHead({.id = {.kind = SegmentKind::kMetrics, .job = 1}, .salt = kSalt});
  return head + head;
}

void ReadAll(const testing::Directory& directory, std::string_view bytes) {
  directory.Write("0.seg", bytes);
  MetricStreamReader reader(std::make_shared<const SegmentFiles>(directory.Path("0")));
  v1::MetricBatch batch;
  for (size_t records = 0;; ++records) {
    const absl::StatusOr<bool> found = reader.Next(batch);
    FUZZ_EXPECT(found.ok());
    if (!*found) break;
    FUZZ_EXPECT(records <= bytes.size() / kRecordHeadBytes);
  }
}

std::string SoundRecords(std::string_view bytes) {
  std::string records = Head();
  testing::Pieces pieces(bytes);
  uint64_t offset = 0;
  for (std::string_view body; pieces.Next(&body);) {
    records += EncodeRecordHead({.offset = offset,
                                 .length = static_cast<uint32_t>(body.size()),
                                 .body_crc = common::Crc32c(body)},
                                kSalt);
    records += body;
    offset += body.size();
  }
  return records;
}

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const muster::testing::Directory directory;
  const std::string_view bytes = muster::testing::Text(data, size);
  muster::coordinator::ReadAll(directory, bytes);
  muster::coordinator::ReadAll(directory, muster::coordinator::Head() + std::string(bytes));
  muster::coordinator::ReadAll(directory, muster::coordinator::SoundRecords(bytes));
  return 0;
}
