// The responses that are the same everywhere: errors as JSON with code, what, why and fix, and the
// fields that every response carries. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/http/server/message.h"

namespace muster::coordinator::http {

// The fields of every response.
const Fields& SecurityFields();
// The HTTP status for a call's status, as google.rpc maps them.
unsigned HttpStatusOf(absl::StatusCode code);
// {"error":{"code":"JC1201","what":…,"why":…,"fix":…,"status":404,"grpcStatus":"NOT_FOUND"}}. `why`
// is absent if `what` gives the cause already; `fix` comes from the code's row if the error has none.
Response ErrorResponse(const absl::Status& status);
// With another HTTP status than the code's: 421, 405, 413 …
Response ErrorResponse(const absl::Status& status, unsigned http_status);
// JC1316: the request itself is wrong or cannot be taken.
Response Refusal(unsigned http_status, std::string what, std::string fix);
// JC1308, 429: others are served, this caller has its share. `fix`: what helps besides waiting.
Response OverShare(std::string what, std::string fix);
Response JsonResponse(std::string json);
Response TextResponse(std::string text);
Response PemResponse(std::string pem);
// 405 for anything but GET and HEAD.
Response OnlyReadable(std::string_view path);
Response HtmlResponse(unsigned status, std::string_view title, std::string_view body);
// For text between tags and in quoted attributes.
std::string HtmlEscape(std::string_view text);

}  // namespace muster::coordinator::http
