#include "identity/answer_checks.h"

#include <string>

#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/url.h"

namespace muster::identity {
namespace {

using common::StrCat;

constexpr size_t kShownMax = 80;
constexpr size_t kUserCodeMax = 64;

absl::Status Refuse(std::string_view from, std::string_view text, std::string_view why) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1371",
       .what =
           StrCat(from, " answered with \"", common::Printable(text.substr(0, kShownMax)), "\""),
       .why = std::string(why),
       .fix = "is it the coordinator that you mean? compare its authority with what "
              "`muster-coordinator init` printed"});
}

}  // namespace

absl::Status CheckEndpoint(std::string_view from, std::string_view endpoint) {
  const auto url = common::ParseHttpUrl(StrCat("https://", endpoint));
  const bool has_port = endpoint.rfind(':') != std::string_view::npos && !endpoint.ends_with(']');
  if (url.ok() && has_port && endpoint.find_first_of("/?") == std::string_view::npos)
    return absl::OkStatus();
  return Refuse(from, endpoint, "which is not HOST:PORT");
}

absl::Status CheckPage(std::string_view from, std::string_view url) {
  // The characters that would end an HTML attribute.
  const bool is_quotable = url.find_first_of("\"'<>`") == std::string_view::npos;
  if (is_quotable && common::ParseHttpUrl(url).ok()) return absl::OkStatus();
  return Refuse(from, url, "which is not the address of a page");
}

absl::Status CheckUserCode(std::string_view from, std::string_view code) {
  if (!code.empty() && code.size() <= kUserCodeMax && common::Printable(code) == code)
    return absl::OkStatus();
  return Refuse(from, code, "which is not a code to type");
}

}  // namespace muster::identity
