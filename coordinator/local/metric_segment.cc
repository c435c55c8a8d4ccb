#include "coordinator/local/metric_segment.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/crc32c.h"
#include "common/files.h"
#include "common/limits.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);
// A batch came in one message; a longer record is damage.
constexpr size_t kRecordBytesMax = common::kBulkMessageBytesMax + 64 * 1024;

}  // namespace

std::string EncodeMetricRecord(const v1::MetricBatch& batch) {
  const std::string body = batch.SerializeAsString();
  const uint32_t header[2] = {static_cast<uint32_t>(body.size()), common::Crc32c(body)};
  std::string record(reinterpret_cast<const char*>(header), sizeof header);
  return record + body;
}

absl::Status MetricSegmentReader::Fill(size_t size) {
  if (Ahead().size() >= size) return absl::OkStatus();
  piece_.erase(0, used_);
  used_ = 0;
  common::UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const absl::Status status = common::ErrnoStatus(common::StrCat("cannot open ", path_));
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  const size_t have = piece_.size();
  ASSIGN_OR_RETURN(
      const std::string more,
      common::ReadAt(fd.get(), offset_ + have, std::max(size, kPieceBytes) - have, path_));
  piece_ += more;
  return absl::OkStatus();
}

absl::StatusOr<bool> MetricSegmentReader::Next(v1::MetricBatch& batch) {
  RETURN_IF_ERROR(Fill(kHeaderBytes));
  uint32_t header[2] = {0, 0};
  bool is_whole = Ahead().size() >= kHeaderBytes;
  if (is_whole) {
    std::memcpy(header, Ahead().data(), sizeof header);
    is_whole = header[0] <= kRecordBytesMax;
  }
  if (is_whole) {
    RETURN_IF_ERROR(Fill(kHeaderBytes + header[0]));
    is_whole = Ahead().size() >= kHeaderBytes + header[0];
  }
  if (is_whole) {
    const std::string_view body = Ahead().substr(kHeaderBytes, header[0]);
    is_whole = common::Crc32c(body) == header[1] &&
               batch.ParseFromArray(body.data(), static_cast<int>(body.size()));
  }
  if (!is_whole) {
    // A record that is just being written is read anew the next time.
    std::string().swap(piece_);
    used_ = 0;
    return false;
  }
  used_ += kHeaderBytes + header[0];
  offset_ += kHeaderBytes + header[0];
  return true;
}

}  // namespace muster::coordinator
