#include "coordinator/s3/times.h"

#include "absl/time/time.h"
#include "common/text/strings.h"

namespace muster::coordinator::s3 {
namespace {

// Years that times may be in: absl also reads "infinite-future".
constexpr int64_t kYear3000Ms = 32'503'680'000'000;

std::optional<int64_t> ReadTime(std::string_view format, std::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(common::ToAbsl(format), common::ToAbsl(text), &time, &error))
    return std::nullopt;
  const int64_t ms = absl::ToUnixMillis(time);
  if (ms < 0 || ms > kYear3000Ms) return std::nullopt;
  return ms;
}

}  // namespace

std::string BasicTime(int64_t wall_ms) {
  return absl::FormatTime("%Y%m%dT%H%M%SZ", absl::FromUnixMillis(wall_ms), absl::UTCTimeZone());
}

std::optional<int64_t> ReadXmlTime(std::string_view text) {
  return ReadTime("%Y-%m-%d%ET%H:%M:%E*S%Ez", text);
}

std::optional<int64_t> ReadHttpTime(std::string_view text) {
  return ReadTime("%a, %d %b %Y %H:%M:%S GMT", text);
}

}  // namespace muster::coordinator::s3
