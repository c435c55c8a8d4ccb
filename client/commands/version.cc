// jobctl version and explain.
#include "common/base/version.h"

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/installed/verify.h"
#include "client/session/private_coordinator.h"
#include "client/session/session.h"
#include "client/terminal/record_json.h"
#include "common/base/status.h"
#include "common/error_codes.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kVersionFlags[] = {
    {"client", 0, "", "only jobctl's own, without contacting a coordinator"},
    {"verify", 0, "", "compare what packages installed here with their lists"},
    {"key", 0, "FILE", "the public key that must have signed them", "", "file"},
    kRecordOutputFlag,
};
constexpr Flag kExplainFlags[] = {kRecordOutputFlag};

// `server`: null if there is none, or it is not asked for.
absl::StatusOr<std::string> VersionRecord(const v1::GetServerResponse* server,
                                          const std::string& format) {
  RecordFields fields;
  fields.Add("client", common::kVersion).Add("client_protocol", int64_t{common::kProtocol});
  fields.Add("server", server == nullptr ? Value() : Value(server->version()));
  fields.Add("server_protocol", server == nullptr ? Value() : Value(int64_t{server->protocol()}));
  return RecordText("Version", fields, format);
}

std::string VersionLine(const v1::GetServerResponse* server, bool client_only) {
  if (server == nullptr) {
    return StrCat("client ", common::kVersion, "  protocol ", common::kProtocol,
                  client_only ? "" : "  server none (private, not running)", "\n");
  }
  return StrCat("client ", common::kVersion, "  server ", server->version(), "  protocol ",
                server->protocol(),
                server->protocol() == common::kProtocol ? " (compatible)"
                                                        : " (compatible, different version)",
                "\n");
}

absl::StatusOr<int> Version(Session& session, const Arguments& arguments) {
  if (arguments.Has("verify")) return VerifyInstalled(session, arguments);
  if (arguments.Has("key")) return Usage("JC1004", "--key is for --verify", "add --verify");
  const v1::GetServerResponse* server = nullptr;
  // Does not start a coordinator just to print its version.
  const bool runs = !session.is_private() || session.private_coordinator().Running();
  if (runs && !arguments.Has("client")) {
    ASSIGN_OR_RETURN(Connection * connection, session.Connect());
    server = &connection->server();
  }
  if (arguments.Has("output")) {
    ASSIGN_OR_RETURN(const std::string text, VersionRecord(server, arguments.Get("output")));
    session.Print(text);
  } else {
    session.Print(VersionLine(server, arguments.Has("client")));
  }
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
                                               common::DidYouMean(common::Nearest(wanted, names))),
                                .fix = "jobctl explain JC1201"});
  }
  if (arguments.Has("output")) {
    RecordFields fields;
    fields.Add("code", std::string(code->code)).Add("title", std::string(code->title));
    fields.Add("explanation", std::string(code->explanation));
    fields.Add("fix", std::string(code->fix));
    ASSIGN_OR_RETURN(const std::string text,
                     RecordText("ErrorCode", fields, arguments.Get("output")));
    session.Print(text);
    return kExitOk;
  }
  session.Print(StrCat(code->code, ": ", code->title, "\n\n", code->explanation,
                       "\n\nfix: ", code->fix, "\n"));
  return kExitOk;
}

}  // namespace

const Command kVersionCommand = {
    .name = "version",
    .place = 780,
    .summary = "show the versions of jobctl and of the coordinator",
    .flags = kVersionFlags,
    .needs_none_with = "client",
    .examples =
        "jobctl version\tand whether they are compatible\n"
        "jobctl version --verify --key muster.pub\tare the "
        "installed files those that were signed?",
    .notes =
        "--verify exits with 1 if a file was changed, is missing or is one too\n"
        "many, or with --key if a package is not signed with that.",
    .run = Version};
const Command kExplainCommand = {.name = "explain",
                                 .place = 770,
                                 .summary = "explain an error code",
                                 .arguments = "CODE",
                                 .least = 1,
                                 .most = 1,
                                 .flags = kExplainFlags,
                                 .needs_settings = false,
                                 .completes = "code",
                                 .examples = "jobctl explain JC1402\tworks without a coordinator",
                                 .run = Explain};

}  // namespace muster::client
