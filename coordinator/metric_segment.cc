#include "coordinator/metric_segment.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "common/crc32c.h"
#include "common/files.h"
#include "common/status.h"

namespace muster::coordinator {
namespace {

constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);

}  // namespace

std::string EncodeMetricRecord(const v1::MetricBatch& batch) {
  const std::string body = batch.SerializeAsString();
  const uint32_t header[2] = {static_cast<uint32_t>(body.size()), common::Crc32c(body)};
  std::string record(reinterpret_cast<const char*>(header), sizeof header);
  return record + body;
}

absl::Status ReadMetricSegment(const std::string& path,
                               const std::function<void(v1::MetricBatch)>& each,
                               uint64_t* sound_bytes) {
  *sound_bytes = 0;
  const absl::StatusOr<std::string> content = common::ReadFile(path, SIZE_MAX);
  if (absl::IsNotFound(content.status())) return absl::OkStatus();
  RETURN_IF_ERROR(content.status());
  std::string_view rest = *content;
  while (rest.size() >= kHeaderBytes) {
    uint32_t header[2];
    std::memcpy(header, rest.data(), sizeof header);
    if (rest.size() - kHeaderBytes < header[0]) break;
    const std::string_view body = rest.substr(kHeaderBytes, header[0]);
    v1::MetricBatch batch;
    if (common::Crc32c(body) != header[1] ||
        !batch.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      break;
    }
    each(std::move(batch));
    rest.remove_prefix(kHeaderBytes + header[0]);
    *sound_bytes += kHeaderBytes + header[0];
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
