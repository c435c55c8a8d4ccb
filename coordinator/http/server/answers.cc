#include "coordinator/http/server/answers.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_replace.h"
#include "common/error_codes.h"
#include "common/problem.h"
#include "common/text/json_text.h"
#include "common/text/markup.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/error.pb.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

absl::StatusCode CodeOfRefusal(unsigned http_status) {
  switch (http_status) {
    case 404:
      return absl::StatusCode::kNotFound;
    case 408:
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    case 429:
    case 503:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

}  // namespace

const Fields& SecurityFields() {
  static const Fields* const fields = new Fields{
      {"Content-Security-Policy",
       "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
       "object-src 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  return *fields;
}

unsigned HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

Response ErrorResponse(const absl::Status& status) {
  return ErrorResponse(status, HttpStatusOf(status.code()));
}

Response ErrorResponse(const absl::Status& status, unsigned http_status) {
  const common::Problem problem = common::ProblemOf(status);
  v1::ErrorDetail detail;
  detail.set_code(problem.code);
  // Without a code it comes from the system or a library and may have any bytes.
  detail.set_what(common::Printable(problem.what, true));
  detail.set_why(common::Printable(problem.why, true));
  detail.set_fix(common::Printable(problem.fix, true));
  const common::ErrorCode* row =
      problem.code.empty() ? nullptr : common::FindErrorCode(problem.code);
  if (problem.fix.empty() && row != nullptr) detail.set_fix(std::string(row->fix));
  std::string json;
  // Its texts are UTF-8, so this cannot fail.
  if (!google::protobuf::util::MessageToJsonString(detail, &json).ok()) json = "{}";
  const common::JsonText error = common::JsonObject::Extending(std::move(json))
                                     .Add("status", http_status)
                                     .Add("grpcStatus", absl::StatusCodeToString(status.code()))
                                     .Done();
  return {
      .status = http_status,
      .content_type = "application/json",
      .body = common::JsonObject(common::JsonObject::Style::kCompact).Add("error", error).Line(),
      .fields = {}};
}

Response Refusal(unsigned http_status, std::string what, std::string fix) {
  return ErrorResponse(
      common::MakeProblem(CodeOfRefusal(http_status),
                          {.code = "JC1316", .what = std::move(what), .fix = std::move(fix)}),
      http_status);
}

Response OverShare(std::string what, std::string fix) {
  Response response = ErrorResponse(common::MakeProblem(absl::StatusCode::kResourceExhausted,
                                                        {.code = "JC1308",
                                                         .what = std::move(what),
                                                         .why = "the rest is left for others",
                                                         .fix = std::move(fix)}));
  response.fields.emplace_back("Retry-After", "1");
  return response;
}

Response JsonResponse(std::string json) {
  return {.content_type = "application/json", .body = std::move(json), .fields = {}};
}

Response TextResponse(std::string text) {
  return {.content_type = "text/plain; charset=utf-8", .body = std::move(text), .fields = {}};
}

Response PemResponse(std::string pem) {
  return {.content_type = "application/x-pem-file", .body = std::move(pem), .fields = {}};
}

Response OnlyReadable(std::string_view path) {
  Response response = Refusal(405, StrCat(common::Printable(path), " can only be read"), "use GET");
  response.fields.emplace_back("Allow", "GET, HEAD");
  return response;
}

Response HtmlResponse(unsigned status, std::string_view title, std::string_view body) {
  return {.status = status,
          .content_type = "text/html; charset=utf-8",
          .body = StrCat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                         "<meta name=\"viewport\" content=\"width=device-width\"><title>",
                         HtmlEscape(title), "</title></head><body><h1>", HtmlEscape(title),
                         "</h1>\n", body, "</body></html>\n"),
          .fields = {}};
}

std::string HtmlEscape(std::string_view text) {
  return absl::StrReplaceAll(common::EscapeMarkup(text), {{"'", "&#39;"}});
}

}  // namespace muster::coordinator::http
