// Samples: batches as a worker sends them, checked and then folded into buckets; files of the
// coordinator's data directory after damage.
#include <cmath>

#include "coordinator/gates/sample_checks.h"
#include "coordinator/local/sample_files.h"
#include "coordinator/store_parts/sample_buckets.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

void Fold(const v1::SampleBatch& batch) {
  SampleBuckets buckets(kSampleTiers[1]);
  v1::SampleBatch later = batch;
  later.set_time_ms(batch.time_ms() + 1);
  buckets.Add(batch);
  buckets.Add(later);
  const auto bucket = buckets.Take();
  FUZZ_EXPECT(bucket.has_value());
  FUZZ_EXPECT(bucket->last().ranks_size() == batch.ranks_size());
  for (int i = 0; i < batch.ranks_size(); ++i) {
    FUZZ_EXPECT(bucket->min().ranks(i).cpu_cores() <= batch.ranks(i).cpu_cores());
    FUZZ_EXPECT(bucket->max().ranks(i).cpu_cores() >= batch.ranks(i).cpu_cores());
  }
}

void Check(const uint8_t* data, size_t size) {
  v1::SampleBatch batch;
  if (!batch.ParseFromArray(data, static_cast<int>(size))) return;
  const SampledPart part{
      .first_rank = 0, .ranks = 8, .device_kind = "gpu", .device_indexes = {0, 1}};
  if (!CheckSampleBatch(batch, part).ok()) return;
  FUZZ_EXPECT(batch.time_ms() > 0);
  FUZZ_EXPECT(batch.ranks_size() <= 8 && batch.devices_size() <= 2);
  for (const v1::RankSample& sample : batch.ranks()) {
    FUZZ_EXPECT(sample.rank() < 8 && std::isfinite(sample.cpu_cores()));
  }
  Fold(batch);
}

void Scan(std::string_view bytes) {
  uint64_t records = 0;
  const SampleScan scan = ScanSamples(bytes, [&records](const v1::SampleBucket&) {
    ++records;
    return true;
  });
  FUZZ_EXPECT(scan.records == records);
  FUZZ_EXPECT(scan.damaged_bytes + scan.rest_bytes <= bytes.size());
}

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::coordinator;
  Check(data, size);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Scan(bytes);
  // Between sound records.
  muster::v1::SampleBucket bucket;
  const std::string sound = SampleRecord(bucket);
  Scan(sound + bytes + sound);
  (void)ParseSamplePath(bytes);
  return 0;
}
