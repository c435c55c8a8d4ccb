#include "coordinator/http/api/json_body.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "common/base/limits.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator::http {

using common::StrCat;

bool IsJson(std::string_view content_type) {
  return content_type.substr(0, content_type.find(';')) == "application/json";
}

absl::Status FillFromBody(const std::string& body, const BodyKind& kind,
                          google::protobuf::Message& message) {
  if (body.empty()) return absl::OkStatus();
  std::string why;
  if (common::NestsDeeper(body, common::kJsonDepthMax)) {
    why = StrCat("it nests deeper than ", common::kJsonDepthMax, " levels");
  } else {
    google::protobuf::util::JsonParseOptions options;
    const auto parsed = google::protobuf::util::JsonStringToMessage(body, &message, options);
    if (parsed.ok()) return absl::OkStatus();
    why = common::Printable(std::string(parsed.message()));
  }
  return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                             {.code = "JC1316",
                              .what = StrCat("the body is not ", kind.what, " in JSON"),
                              .why = std::move(why),
                              .fix = StrCat(kind.described_by, " describes it")});
}

}  // namespace muster::coordinator::http
