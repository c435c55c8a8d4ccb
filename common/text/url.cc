#include "common/text/url.h"

#include <algorithm>
#include <cctype>

#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::common {
namespace {

bool IsHostByte(unsigned char c, bool is_address) {
  return std::isalnum(c) != 0 || c == '.' || c == '-' || (is_address && c == ':') ||
         (!is_address && c == '_');
}

absl::Status Wrong(std::string_view why) {
  return absl::InvalidArgumentError(StrCat("is not a URL for requests: ", why));
}

}  // namespace

std::string HttpUrl::Authority() const {
  const bool is_address = host.find(':') != std::string::npos;
  const std::string shown = is_address ? StrCat("[", host, "]") : host;
  return port == (is_https ? 443 : 80) ? shown : StrCat(shown, ":", port);
}

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text) {
  if (text.size() > kUrlBytesMax) return Wrong(StrCat("longer than ", kUrlBytesMax, " bytes"));
  const bool visible =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!visible) return Wrong("it has a blank, a control character or one that is not ASCII");
  HttpUrl url;
  if (text.starts_with("https://")) {
    url.is_https = true;
  } else if (!text.starts_with("http://")) {
    return Wrong("it does not begin with https:// or http://");
  }
  text.remove_prefix(url.is_https ? 8 : 7);
  const size_t end = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, end);
  url.target = text.substr(end);
  if (url.target.find('#') != std::string::npos) return Wrong("a request has no fragment (#)");
  if (url.target.empty() || url.target[0] != '/') url.target.insert(0, "/");
  if (authority.find('@') != std::string_view::npos)
    return Wrong("it has a user or a password; sign the request with secret_env instead");
  const bool is_address = authority.starts_with('[');
  const size_t host_end =
      is_address ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (host_end == std::string_view::npos) return Wrong("[ has no ]");
  url.host = authority.substr(is_address ? 1 : 0, host_end - (is_address ? 1 : 0));
  std::string_view port = authority.substr(host_end + (is_address ? 1 : 0));
  if (url.host.empty() || url.host.size() > 253 ||
      !std::all_of(url.host.begin(), url.host.end(),
                   [&](unsigned char c) { return IsHostByte(c, is_address); }))
    return Wrong("its host is not a name or an address");
  url.port = url.is_https ? 443 : 80;
  if (port.empty()) return url;
  port.remove_prefix(1);
  const absl::StatusOr<int64_t> number = ParseInteger(port);
  if (!number.ok() || *number < 1 || *number > 65535 ||
      authority[host_end + (is_address ? 1 : 0)] != ':')
    return Wrong("its port is not a number from 1 to 65535");
  url.port = static_cast<uint16_t>(*number);
  return url;
}

}  // namespace muster::common
