// The worker's file of metric batches, which the rank can access. Input: what was acknowledged (a
// piece), then the file unchanged or, if that starts with a zero, pieces that become valid records.
#include "common/hash/crc32c.h"
#include "fuzz/harness.h"
#include "worker/output/metric_spool.h"

namespace {

std::string SoundRecords(std::string_view bytes) {
  std::string records;
  muster::testing::Pieces pieces(bytes);
  for (std::string_view body; pieces.Next(&body);) {
    const uint32_t header[2] = {static_cast<uint32_t>(body.size()), muster::common::Crc32c(body)};
    records.append(reinterpret_cast<const char*>(header), sizeof header);
    records.append(body);
  }
  return records;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  static const testing::Directory directory;
  testing::Pieces input(testing::Text(data, size));
  std::string_view acked;
  if (!input.Next(&acked)) return 0;
  const std::string_view rest = input.Rest();
  const bool sound = !rest.empty() && rest[0] == 0;
  directory.Write("batches.acked", acked);
  const std::string file = sound ? SoundRecords(rest.substr(1)) : std::string(rest);
  directory.Write("batches", file);

  absl::StatusOr<worker::MetricSpool> spool = worker::MetricSpool::Open(directory.Path("batches"));
  FUZZ_EXPECT(spool.ok());
  const auto seqs = spool->LastSeqs();
  std::vector<v1::MetricBatch> sent;
  while (std::optional<v1::MetricBatch> batch = *spool->Next()) {
    FUZZ_EXPECT(sent.size() <= size);
    sent.push_back(*std::move(batch));
  }
  for (const auto& [source, seq] : seqs) FUZZ_EXPECT(spool->LastSeq(source) == seq);
  for (const v1::MetricBatch& batch : sent) spool->OnAck(batch.source(), batch.seq());
  FUZZ_EXPECT(spool->TakeDamage() <= file.size());
  return 0;
}
