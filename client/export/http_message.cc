// The pure half of http.h.
#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "client/export/http.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::client {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kLineEnd = "\r\n";

absl::Status NotHttp() { return absl::InvalidArgumentError("the answer is not HTTP/1.1"); }

// The value of a header, or nullopt; `head` has a line for each.
std::optional<std::string_view> HeaderOf(std::string_view head, std::string_view name) {
  size_t at = head.find(kLineEnd);
  while (at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + kLineEnd.size());
    const std::string_view line = rest.substr(0, rest.find(kLineEnd));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        absl::EqualsIgnoreCase(common::ToAbsl(line.substr(0, colon)), common::ToAbsl(name))) {
      return common::FromAbsl(absl::StripAsciiWhitespace(common::ToAbsl(line.substr(colon + 1))));
    }
    at = head.find(kLineEnd, at + kLineEnd.size());
  }
  return std::nullopt;
}

// True if the whole of `text` is a number of this base, and not too large to be a response.
bool ReadSize(std::string_view text, int base, size_t* size) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *size, base);
  return error == std::errc() && end == text.data() + text.size() && *size <= kHttpResponseMax;
}

absl::StatusOr<std::optional<std::string>> Unchunked(std::string_view bytes) {
  std::string body;
  while (true) {
    const size_t end = bytes.find(kLineEnd);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view digits = bytes.substr(0, end);
    digits = digits.substr(0, digits.find(';'));
    size_t size = 0;
    if (!ReadSize(digits, 16, &size)) return NotHttp();
    bytes.remove_prefix(end + kLineEnd.size());
    if (size == 0) return body;  // trailers do not matter
    if (bytes.size() < size + kLineEnd.size()) return std::nullopt;
    body += bytes.substr(0, size);
    bytes.remove_prefix(size + kLineEnd.size());
  }
}

// `head`: the status line and the headers; `rest`: what came after them.
absl::StatusOr<std::optional<HttpResponse>> ParseBody(int status, std::string_view head,
                                                      std::string_view rest, bool ended) {
  HttpResponse response{.status = status};
  if (const auto encoding = HeaderOf(head, "transfer-encoding"); encoding) {
    if (!absl::EqualsIgnoreCase(common::ToAbsl(*encoding), "chunked")) return NotHttp();
    ASSIGN_OR_RETURN(std::optional<std::string> body, Unchunked(rest));
    if (!body && ended) return NotHttp();
    if (!body) return std::nullopt;
    response.body = *std::move(body);
    return response;
  }
  size_t length = 0;
  const auto announced = HeaderOf(head, "content-length");
  if (announced && !ReadSize(*announced, 10, &length)) return NotHttp();
  if (!announced && status != 204) {  // the body lasts until the connection closes
    if (!ended) return std::nullopt;
    length = rest.size();
  }
  if (rest.size() < length) {
    if (ended) return NotHttp();
    return std::nullopt;
  }
  response.body = std::string(rest.substr(0, length));
  return response;
}

}  // namespace

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text) {
  if (!text.starts_with(kScheme)) {
    return absl::InvalidArgumentError("only http:// URLs are supported");
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '@') {
      return absl::InvalidArgumentError(
          "a user, a query, spaces and control characters are not "
          "supported");
    }
  }
  text.remove_prefix(kScheme.size());
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  HttpUrl url{.port = "80", .path = std::string(text.substr(slash))};
  while (url.path.ends_with('/')) url.path.pop_back();
  size_t colon = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return absl::InvalidArgumentError("\"]\" is missing");
    if (colon < bracket) colon = std::string_view::npos;
    url.host = std::string(authority.substr(1, bracket - 1));
  } else {
    url.host = std::string(authority.substr(0, colon));
  }
  if (colon != std::string_view::npos) url.port = std::string(authority.substr(colon + 1));
  size_t port = 0;
  if (url.host.empty() || !ReadSize(url.port, 10, &port) || port == 0 || port > 65535) {
    return absl::InvalidArgumentError("host or port is missing or wrong");
  }
  return url;
}

absl::StatusOr<std::optional<HttpResponse>> ParseHttpResponse(std::string_view bytes, bool ended) {
  if (bytes.size() > kHttpResponseMax) return absl::InvalidArgumentError("the answer is too large");
  while (true) {
    const size_t head_end = bytes.find("\r\n\r\n");
    if (head_end == std::string_view::npos) {
      if (ended) return NotHttp();
      return std::nullopt;
    }
    const std::string_view head = bytes.substr(0, head_end);
    size_t status = 0;
    if (!head.starts_with("HTTP/1.") || head.size() < 12 || head[8] != ' ' ||
        !ReadSize(head.substr(9, 3), 10, &status) || status < 100) {
      return NotHttp();
    }
    bytes.remove_prefix(head_end + 4);
    if (status >= 200) return ParseBody(static_cast<int>(status), head, bytes, ended);
    // An interim response such as 100 Continue: the final one follows.
  }
}

}  // namespace muster::client
