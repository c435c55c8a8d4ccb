// What a training program sends on its socket, and the error file that it leaves.
#include "common/base/limits.h"
#include "common/text/text.h"
#include "fuzz/harness.h"
#include "worker/base/json_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view text = testing::Text(data, size);
  if (const absl::StatusOr<worker::TrainerLine> line = worker::ParseTrainerLine(text); line.ok()) {
    FUZZ_EXPECT(line->batch.points_size() <= static_cast<int>(worker::kPointsPerBatchMax));
    for (const v1::MetricPoint& point : line->batch.points()) {
      FUZZ_EXPECT(!point.name().empty() && point.name().size() <= worker::kMetricNameBytesMax);
      FUZZ_EXPECT(common::IsCleanUtf8(point.name()));
    }
    FUZZ_EXPECT(line->record.size() <= worker::kDiagnosisBytesMax);
    FUZZ_EXPECT(line->record.find('\n') == std::string::npos);
    v1::MetricBatch again;  // it is sent as a message, which rejects texts that are not UTF-8
    FUZZ_EXPECT(again.ParseFromString(line->batch.SerializeAsString()));
  }
  worker::ErrorFileMessage(std::string(text));
  return 0;
}
