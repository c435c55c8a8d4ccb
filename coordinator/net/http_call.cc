#include "coordinator/net/http_call.h"

#include <string>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {

using common::StrCat;

absl::StatusOr<common::HttpResponse> CallOutside(const common::HttpCall& call,
                                                 const std::atomic<bool>& stop) {
  absl::StatusOr<common::HttpResponse> answer = common::CallHttp(call, &stop);
  const std::string why = common::MessageOf(answer.status());
  switch (answer.status().code()) {
    case absl::StatusCode::kCancelled:
      return absl::CancelledError("the coordinator is stopping");
    case absl::StatusCode::kNotFound:
      return absl::UnavailableError(StrCat("the host ", call.url.host, " does not resolve: ", why));
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(StrCat("cannot reach ", call.url.Authority(), ": ", why));
    case absl::StatusCode::kUnauthenticated:
      return absl::UnavailableError(
          StrCat("the certificate of ", call.url.host, " is not valid: ", why));
    case absl::StatusCode::kAborted:
      return absl::UnavailableError(why);
    default:
      return answer;
  }
}

}  // namespace muster::coordinator
