#include "worker/launch/launch_record.h"

#include <cstring>
#include <string_view>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/crc32c.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

// Field 1000 with wire type 5 (four bytes). Protobuf's encoding, written by hand so that it always
// comes last.
constexpr std::string_view kSumTag = "\xc5\x3e";
constexpr size_t kSumBytes = kSumTag.size() + sizeof(uint32_t);
constexpr size_t kLaunchRecordBytesMax = 64 << 20;

bool SumIsWrong(std::string_view bytes) {
  if (bytes.size() < kSumBytes) return false;
  const std::string_view body = bytes.substr(0, bytes.size() - kSumBytes);
  const std::string_view tail = bytes.substr(body.size());
  if (tail.substr(0, kSumTag.size()) != kSumTag) return false;  // from an older version
  uint32_t sum = 0;
  std::memcpy(&sum, tail.data() + kSumTag.size(), sizeof sum);
  return sum != common::Crc32c(body);
}

}  // namespace

std::string EncodeLaunchRecord(const v1::LaunchAttempt& launch) {
  std::string bytes = launch.SerializeAsString();
  const uint32_t sum = common::Crc32c(bytes);
  bytes.append(kSumTag);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return bytes;
}

absl::StatusOr<v1::LaunchAttempt> ReadLaunchRecord(const std::string& path, const AttemptKey& key) {
  ASSIGN_OR_RETURN(const std::string bytes, common::ReadFile(path, kLaunchRecordBytesMax));
  v1::LaunchAttempt launch;
  if (SumIsWrong(bytes) || !launch.ParseFromString(bytes) || launch.job() != key.job ||
      launch.attempt() != key.attempt || launch.part().local_world_size() == 0) {
    return absl::DataLossError(common::StrCat(path, " is damaged"));
  }
  return launch;
}

}  // namespace muster::worker
