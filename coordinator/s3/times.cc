#include "coordinator/s3/encoding.h"

#include "absl/time/time.h"
#include "common/hash/hex.h"
#include "common/text/strings.h"

namespace muster::coordinator::s3 {
namespace {

// Years that times may be in: absl also reads "infinite-future".
constexpr int64_t kYear3000Ms = 32'503'680'000'000;

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

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

std::string PercentEncode(std::string_view text, bool keeps_slash) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (IsUnreserved(c) || (keeps_slash && c == '/')) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const auto byte = common::FromHex(text.substr(i + 1, 2));
    if (!byte || byte->size() != 1) return std::nullopt;
    decoded += *byte;
    i += 2;
  }
  return decoded;
}

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
