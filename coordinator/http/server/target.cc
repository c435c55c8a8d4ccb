#include "coordinator/http/server/target.h"

#include <algorithm>
#include <optional>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/percent.h"
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

// Nothing: a broken escape, or a character that has no use in an address.
std::optional<std::string> Decoded(std::string_view text) {
  std::optional<std::string> decoded = common::PercentDecode(text);
  if (!decoded || !common::IsUtf8Text(*decoded) || decoded->find('\0') != std::string::npos)
    return std::nullopt;
  return decoded;
}

// As forms send it: a blank is a plus.
std::optional<std::string> DecodedParameter(std::string_view text) {
  std::string plain(text);
  std::replace(plain.begin(), plain.end(), '+', ' ');
  return Decoded(plain);
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
  std::optional<std::string> path = Decoded(text.substr(0, mark));
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
    std::optional<std::string> name = DecodedParameter(pair.substr(0, equals));
    std::optional<std::string> value = std::string();
    if (equals != std::string_view::npos) value = DecodedParameter(pair.substr(equals + 1));
    if (!name.has_value() || !value.has_value()) {
      return BadTarget(text, "an escape in its query is broken");
    }
    target.query.emplace_back(*std::move(name), *std::move(value));
  }
  return target;
}

}  // namespace muster::coordinator::http
