#include "client/bulk.h"

#include <algorithm>
#include <cstdio>

#include "client/errors.h"
#include "client/session.h"
#include "common/problem.h"
#include "common/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

absl::StatusOr<int> ReportBulk(Session& session, const v1::BulkResponse& response,
                               std::string_view done) {
  int worst = kExitOk;
  for (const v1::BulkResult& result : response.results()) {
    const std::string& name = result.name().empty() ? result.subject() : result.name();
    if (result.status_code() == 0) {
      session.Print(common::StrCat(
          name, " ", result.message().empty() ? std::string(done) : result.message(), "\n"));
      continue;
    }
    const absl::Status error = common::StatusOf(static_cast<absl::StatusCode>(result.status_code()),
                                                result.message(), result.error());
    // A single result is the command's own failure.
    if (response.results_size() == 1) return error;
    fflush(stdout);
    fputs(FormatError(error, session.terminal().color_err).c_str(), stderr);
    worst = std::max(worst, ExitCodeFor(error));
  }
  return worst;
}

}  // namespace muster::client
