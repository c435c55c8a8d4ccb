// jobctl version and explain.
#include "common/version.h"
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/private_coordinator.h"
#include "client/session.h"
#include "common/error_codes.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kVersionFlags[] = {
    {"client", 0, "", "only jobctl's own, without contacting a coordinator"},
};

absl::StatusOr<int> Version(Session& session, const Arguments& arguments) {
  const std::string own = StrCat("client ", common::kVersion, "  protocol ", common::kProtocol);
  if (arguments.Has("client")) {
    session.Print(own + "\n");
    return kExitOk;
  }
  // Does not start a coordinator just to print its version.
  if (session.is_private() && !session.private_coordinator().Running()) {
    session.Print(own + "  server none (private, not running)\n");
    return kExitOk;
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  const v1::GetServerResponse& server = connection->server();
  session.Print(StrCat(
      "client ", common::kVersion, "  server ", server.version(), "  protocol ", server.protocol(),
      server.protocol() == common::kProtocol ? " (compatible)" : " (compatible, different version)",
      "\n"));
  return kExitOk;
}

absl::StatusOr<int> Explain(Session& session, const Arguments& arguments) {
  const std::string& wanted = arguments.words()[0];
  const common::ErrorCode* code = common::FindErrorCode(wanted);
  if (code == nullptr) {
    std::vector<std::string_view> names;
    for (const common::ErrorCode& each : common::ErrorCodes()) names.push_back(each.code);
    return common::MakeProblem(absl::StatusCode::kNotFound,
                               {.code = "JC1004",
                                .what = StrCat("there is no error code \"", wanted, "\"",
                                               DidYouMean(common::Nearest(wanted, names))),
                                .fix = "jobctl explain JC1201"});
  }
  session.Print(StrCat(code->code, ": ", code->title, "\n\n", code->explanation,
                       "\n\nfix: ", code->fix, "\n"));
  return kExitOk;
}

}  // namespace

const Command kVersionCommand = {.name = "version",
                                 .summary = "show the versions of jobctl and of the coordinator",
                                 .flags = kVersionFlags,
                                 .examples = "jobctl version\tand whether they are compatible",
                                 .run = Version};
const Command kExplainCommand = {.name = "explain",
                                 .summary = "explain an error code",
                                 .arguments = "CODE",
                                 .least = 1,
                                 .most = 1,
                                 .completes = "code",
                                 .examples = "jobctl explain JC1402\tworks without a coordinator",
                                 .run = Explain};

}  // namespace muster::client
