// jobctl user ls, set, disable, enable, rm.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "client/text/role_words.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kUserLsFlags[] = {{"usage", 0, "", "what each person takes, and may take"}};
constexpr Flag kUserSetFlags[] = {
    {"role", 0, "ROLE", "what it may do", kRoleChoices},
    {"account", 0, "NAME", "unix account that its ranks run as; empty: the one of its name"},
    {"oidc", 0, "SUBJECT", "\"ISSUER SUBJECT\" that signs in as this user"},
    {"comment", 0, "TEXT", "a remark"},
};

Cell BytesCell(uint64_t bytes) {
  return {Value(static_cast<int64_t>(bytes)), bytes == 0 ? "" : common::HumanBytes(bytes)};
}

std::string MostText(uint64_t bytes) {
  return bytes == 0 ? std::string("any amount") : common::HumanBytes(bytes);
}

absl::StatusOr<int> ListUsage(Session& session, const Arguments& arguments) {
  v1::ListUsersRequest request;
  request.set_usage(true);
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::ListUsersResponse response, connection->ListUsers(request));
  Listing listing;
  listing.kind = "UsageList";
  listing.columns = {{.key = "owner"},
                     {.key = "owner_id", .wide = true},
                     {.key = "jobs", .right = true, .value_name = "live_jobs"},
                     {.key = "specs", .right = true, .value_name = "live_bytes"},
                     {.key = "code", .right = true, .value_name = "code_bytes"},
                     {.key = "logs", .right = true, .value_name = "log_bytes"}};
  for (const v1::Usage& each : response.usage()) {
    const std::string gone = each.owner_is_gone() ? " (removed)" : "";
    listing.rows.push_back({Cell(Value(each.owner()), each.owner() + gone), Cell(each.owner_id()),
                            Cell(int64_t{each.live_jobs()}), BytesCell(each.live_bytes()),
                            BytesCell(each.code_bytes()), BytesCell(each.log_bytes())});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  const v1::Usage& most = response.most();
  if (!arguments.Has("output"))
    session.Note(StrCat("one person may have ", MostText(most.live_bytes()),
                        " of live jobs' specs, bring ", MostText(most.code_bytes()),
                        " of code, and submits with up to ", MostText(most.log_bytes()),
                        " of logs kept, which are counted every minute"));
  return kExitOk;
}

absl::StatusOr<int> ListUsers(Session& session, const Arguments& arguments) {
  if (arguments.Has("usage")) return ListUsage(session, arguments);
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing;
  listing.kind = "UserList";
  listing.columns = {{.key = "name"},
                     {.key = "role"},
                     {.key = "state"},
                     {.key = "account"},
                     {.key = "created", .right = true, .value_name = "created_ms", .since = true},
                     {.key = "by", .wide = true},
                     {.key = "oidc", .wide = true},
                     {.key = "id", .wide = true},
                     {.key = "comment", .shrink = true}};
  v1::ListUsersRequest request;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListUsersResponse page, connection->ListUsers(request));
    for (const v1::User& user : page.users()) {
      listing.rows.push_back({Cell(user.name()), Cell(RoleWord(user.role())),
                              Cell(user.disabled() ? "disabled" : "enabled"), Cell(user.account()),
                              AgeCell(user.created_ms()), Cell(user.created_by()),
                              Cell(user.oidc_subject()), Cell(user.id()), Cell(user.comment())});
    }
    if (!page.more() || page.users().empty()) break;
    request.set_after(page.users().rbegin()->name());
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> SetUser(Session& session, const Arguments& arguments) {
  v1::SetUserRequest request;
  request.set_name(arguments.words()[0]);
  if (arguments.Has("role")) request.set_role(RoleOfWord(arguments.Get("role")));
  if (arguments.Has("account")) request.set_account(arguments.Get("account"));
  if (arguments.Has("oidc")) request.set_oidc_subject(arguments.Get("oidc"));
  if (arguments.Has("comment")) request.set_comment(arguments.Get("comment"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::User user, connection->SetUser(request));
  session.Print(StrCat(
      "✓ user ", user.name(), " is ", RoleWord(user.role()), user.disabled() ? ", disabled" : "",
      user.account().empty()
          ? ""
          : StrCat("; its ranks have the account ", common::Printable(user.account())),
      "\n"));
  return kExitOk;
}

absl::StatusOr<int> SetDisabled(Session& session, const Arguments& arguments, bool disabled) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& name : arguments.words()) {
    v1::SetUserRequest request;
    request.set_name(name);
    request.set_disabled(disabled);
    RETURN_IF_ERROR(connection->SetUser(request).status());
    session.Print(StrCat("✓ user ", name, disabled ? " may do nothing now\n" : " is enabled\n"));
  }
  return kExitOk;
}
absl::StatusOr<int> Disable(Session& session, const Arguments& arguments) {
  return SetDisabled(session, arguments, true);
}
absl::StatusOr<int> Enable(Session& session, const Arguments& arguments) {
  return SetDisabled(session, arguments, false);
}

absl::StatusOr<int> RemoveUsers(Session& session, const Arguments& arguments) {
  RETURN_IF_ERROR(session.Confirm(
      "Their certificates, tokens and secrets become useless, and they leave their projects; their "
      "jobs stay, and do not pass to the next user of the name. Remove?"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& name : arguments.words()) {
    v1::RemoveUserRequest request;
    request.set_name(name);
    RETURN_IF_ERROR(connection->RemoveUser(request).status());
    session.Print(StrCat("✓ user ", name, " was removed\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kUserLsCommand = {.name = "user ls",
                                .place = 420,
                                .summary = "list users and their roles",
                                .flags = kUserLsFlags,
                                .listing = true,
                                .examples =
                                    "jobctl user ls\twho may do what\n"
                                    "jobctl user ls --usage\twhose code and logs fill "
                                    "the disk",
                                .run = ListUsers};
const Command kUserSetCommand = {
    .name = "user set",
    .place = 430,
    .summary = "add a user or change one",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .flags = kUserSetFlags,
    .examples =
        "jobctl user set alice --role operator\tmay change everybody's jobs, and nodes\n"
        "jobctl user set uid:1000 --role viewer\ta local account of the coordinator's machine",
    .notes = "What is not given stays unchanged. A user whose role changes has to reconnect.",
    .run = SetUser};
const Command kUserDisableCommand = {.name = "user disable",
                                     .place = 440,
                                     .summary = "let users do nothing for now",
                                     .arguments = "NAME…",
                                     .least = 1,
                                     .most = -1,
                                     .examples = "jobctl user disable alice\tcuts its connections",
                                     .run = Disable};
const Command kUserEnableCommand = {.name = "user enable",
                                    .place = 450,
                                    .summary = "let disabled users continue",
                                    .arguments = "NAME…",
                                    .least = 1,
                                    .most = -1,
                                    .examples = "jobctl user enable alice\twith its old role",
                                    .run = Enable};
const Command kUserRmCommand = {.name = "user rm",
                                .place = 460,
                                .summary = "remove users, their certificates, tokens and secrets",
                                .arguments = "NAME…",
                                .least = 1,
                                .most = -1,
                                .examples = "jobctl user rm alice\tits jobs stay",
                                .run = RemoveUsers};

}  // namespace muster::client
