#include "common/http/response.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

absl::Status NotHttp() { return absl::InvalidArgumentError("the answer is not HTTP/1.1"); }
absl::Status TooLarge() { return absl::InvalidArgumentError("the answer is too large"); }

// The value of a header, or nullopt; `head` has a line for each.
std::optional<std::string_view> HeaderOf(std::string_view head, std::string_view name) {
  size_t at = head.find(kLineEnd);
  while (at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + kLineEnd.size());
    const std::string_view line = rest.substr(0, rest.find(kLineEnd));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        absl::EqualsIgnoreCase(ToAbsl(line.substr(0, colon)), ToAbsl(name))) {
      return FromAbsl(absl::StripAsciiWhitespace(ToAbsl(line.substr(colon + 1))));
    }
    at = head.find(kLineEnd, at + kLineEnd.size());
  }
  return std::nullopt;
}

// True if all of `text` is a number in this base, and not too large for a response.
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
    if (!absl::EqualsIgnoreCase(ToAbsl(*encoding), "chunked")) return NotHttp();
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

absl::StatusOr<std::optional<HttpResponse>> ParseHttpResponse(std::string_view bytes, bool ended) {
  if (bytes.size() > kHttpResponseMax) return TooLarge();
  while (true) {
    const size_t head_end = bytes.find("\r\n\r\n");
    if (std::min(head_end, bytes.size()) > kHttpHeadMax) return TooLarge();
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

}  // namespace muster::common
