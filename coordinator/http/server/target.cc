#include "coordinator/http/server/target.h"

#include <optional>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

absl::Status BadTarget(std::string_view text, std::string why) {
  constexpr size_t kShown = 200;
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1316",
       .what = StrCat("the address ", text.substr(0, kShown), " is malformed"),
       .why = std::move(why),
       .fix = "ask for a path like /api/v1/ListJobs?limit=5"});
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Nothing: a broken escape, or a character that has no use in an address.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      if (at + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[at + 1]);
      const int low = HexDigit(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      at += 2;
    } else if (c == '+' && plus_is_blank) {
      c = ' ';
    }
    decoded += c;
  }
  if (!common::IsUtf8Text(decoded) || decoded.find('\0') != std::string::npos) return std::nullopt;
  return decoded;
}

}  // namespace

std::string_view Target::Get(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return {};
}

absl::StatusOr<Target> ParseTarget(std::string_view text) {
  if (text.empty() || text.front() != '/') return BadTarget(text, "it does not begin with /");
  if (text.find('#') != std::string_view::npos) return BadTarget(text, "it has a fragment");
  Target target;
  const size_t mark = text.find('?');
  std::optional<std::string> path = PercentDecode(text.substr(0, mark), false);
  if (!path.has_value()) return BadTarget(text, "an escape in its path is broken");
  target.path = *std::move(path);
  if (mark == std::string_view::npos) return target;
  std::string_view rest = text.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    if (target.query.size() == kQueryParametersMax) {
      return BadTarget(text, StrCat("it has more than ", kQueryParametersMax, " parameters"));
    }
    const size_t equals = pair.find('=');
    std::optional<std::string> name = PercentDecode(pair.substr(0, equals), true);
    std::optional<std::string> value = std::string();
    if (equals != std::string_view::npos) value = PercentDecode(pair.substr(equals + 1), true);
    if (!name.has_value() || !value.has_value()) {
      return BadTarget(text, "an escape in its query is broken");
    }
    target.query.emplace_back(*std::move(name), *std::move(value));
  }
  return target;
}

std::string PercentEncode(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return encoded;
}

}  // namespace muster::coordinator::http
