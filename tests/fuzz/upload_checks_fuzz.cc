// Log chunks and metric batches as sent by a worker: values that pass the checks are safe to add
// up.
#include "common/base/limits.h"
#include "coordinator/store_parts/upload_checks.h"
#include "fuzz/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  v1::LogChunk chunk;
  if (chunk.ParseFromArray(data, static_cast<int>(size)) &&
      coordinator::CheckLogChunk(chunk).ok()) {
    FUZZ_EXPECT(chunk.rank() < common::kRanksMax);
    FUZZ_EXPECT(chunk.data().size() <= common::kLogChunkBytesMax);
    FUZZ_EXPECT(chunk.dropped() <= chunk.offset());
    FUZZ_EXPECT(chunk.offset() <= common::kLogStreamBytesMax - chunk.data().size());
    for (const v1::LogMark& mark : chunk.marks()) {
      FUZZ_EXPECT(mark.position() <= chunk.data().size() && mark.time_us() >= 0);
    }
  }
  v1::MetricBatch batch;
  if (batch.ParseFromArray(data, static_cast<int>(size)) &&
      coordinator::CheckMetricBatch(batch).ok()) {
    FUZZ_EXPECT(batch.rank() < common::kRanksMax && batch.seq() > 0);
    for (const uint64_t newest : {uint64_t{0}, batch.seq() - 1, batch.seq(), UINT64_MAX}) {
      (void)coordinator::CheckMetricSeq(batch, newest);
    }
  }
  return 0;
}
