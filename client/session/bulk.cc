#include "client/session/bulk.h"

#include <algorithm>
#include <cstdio>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

absl::Status ResultError(const v1::BulkResult& result) {
  return common::StatusOf(static_cast<absl::StatusCode>(result.status_code()), result.message(),
                          result.error());
}

// Errors are rows too.
absl::StatusOr<int> ListBulk(Session& session, const Arguments& arguments,
                             const v1::BulkResponse& response, std::string_view done) {
  Listing listing;
  listing.kind = "ResultList";
  listing.columns = {
      {.key = "subject"}, {.key = "name"}, {.key = "done"}, {.key = "message"}, {.key = "code"}};
  int worst = kExitOk;
  for (const v1::BulkResult& result : response.results()) {
    const std::string& name = result.name().empty() ? result.subject() : result.name();
    const bool is_done = result.status_code() == 0;
    const absl::Status error = is_done ? absl::OkStatus() : ResultError(result);
    const std::string message = !is_done                   ? Sentence(error)
                                : result.message().empty() ? std::string(done)
                                                           : result.message();
    if (!is_done) worst = std::max(worst, ExitCodeFor(error));
    listing.rows.push_back({Cell(result.subject()), Cell(name), Cell(Value(is_done), ""),
                            Cell(message), Cell(common::CodeOf(error))});
  }
  ListingOptions options;
  options.output = arguments.Get("output");
  ASSIGN_OR_RETURN(const std::string text,
                   RenderListing(std::move(listing), options, session.terminal()));
  session.Print(text);
  return worst;
}

}  // namespace

absl::StatusOr<int> ReportBulk(Session& session, const Arguments& arguments,
                               const v1::BulkResponse& response, std::string_view done) {
  if (arguments.Has("output")) return ListBulk(session, arguments, response, done);
  int worst = kExitOk;
  for (const v1::BulkResult& result : response.results()) {
    const std::string& name = result.name().empty() ? result.subject() : result.name();
    if (result.status_code() == 0) {
      session.Print(common::StrCat(
          name, " ", result.message().empty() ? std::string(done) : result.message(), "\n"));
      continue;
    }
    const absl::Status error = ResultError(result);
    // A single result is the command's own failure.
    if (response.results_size() == 1) return error;
    fflush(stdout);
    fputs(FormatError(error, session.terminal().color_err).c_str(), stderr);
    worst = std::max(worst, ExitCodeFor(error));
  }
  return worst;
}

}  // namespace muster::client
