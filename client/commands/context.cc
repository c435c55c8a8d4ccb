// jobctl context ls, use, add, rm, show: the coordinators that jobctl knows.
#include <cstdio>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/session/session.h"
#include "client/session/sign_in.h"
#include "client/terminal/listing.h"
#include "client/terminal/record_json.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/names.h"

namespace muster::client {
namespace {

using common::StrCat;

absl::Status Unknown(const ConfigFile& file, const std::string& name) {
  std::vector<std::string_view> names = {"private"};
  for (const auto& [each, unused] : file.contexts) names.push_back(each);
  return common::MakeProblem(absl::StatusCode::kNotFound,
                             {.code = "JC1007",
                              .what = StrCat("there is no context \"", name, "\"",
                                             common::DidYouMean(common::Nearest(name, names))),
                              .fix = "jobctl context ls"});
}

absl::StatusOr<int> ListContexts(Session& session, const Arguments& arguments) {
  const ConfigFile& file = session.settings().file();
  Listing listing;
  listing.kind = "ContextList";
  listing.columns = {{.key = "current"}, {.key = "name"}, {.key = "server"}};
  listing.name_column = 1;
  const std::string current = session.settings().Get("context");
  const auto add = [&](const std::string& name, const std::string& server) {
    listing.rows.push_back(
        {Cell(Value(name == current), name == current ? "*" : ""), Cell(name), Cell(server)});
  };
  add("private", "this machine, started on demand");
  for (const auto& [name, server] : file.contexts) add(name, server);
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> Use(Session& session, const Arguments& arguments) {
  ConfigFile file = session.settings().file();
  const std::string& name = arguments.words()[0];
  if (name != "private" && file.contexts.count(name) == 0) return Unknown(file, name);
  file.current = name == "private" ? "" : name;
  RETURN_IF_ERROR(file.Write());
  session.Print(StrCat("✓ the context is ", name, "\n"));
  return kExitOk;
}

absl::StatusOr<int> Add(Session& session, const Arguments& arguments) {
  ConfigFile file = session.settings().file();
  const std::string& name = arguments.words()[0];
  const std::string& server = arguments.words()[1];
  if (name == "private" || name.empty() || !common::IsCleanUtf8(name) || name.size() > 100) {
    return Usage("JC1004", StrCat("\"", common::Printable(name), "\" is not a valid context name"),
                 "jobctl context add lab head:7700");
  }
  RETURN_IF_ERROR(CheckServerAddresses("", server));
  if (const auto known = file.contexts.find(name);
      known != file.contexts.end() && known->second != server) {
    RETURN_IF_ERROR(session.Confirm(
        StrCat("The context ", name, " is ", known->second, ". Change it to ", server, "?")));
  }
  file.contexts[name] = server;
  RETURN_IF_ERROR(file.Write());
  session.Print(StrCat("✓ context ", name, " is ", server, "\n"));
  session.Note(StrCat("next: jobctl context use ", name));
  return kExitOk;
}

absl::StatusOr<int> RemoveContext(Session& session, const Arguments& arguments) {
  ConfigFile file = session.settings().file();
  const std::string& name = arguments.words()[0];
  if (file.contexts.erase(name) == 0) return Unknown(file, name);
  if (file.current == name) file.current.clear();
  RETURN_IF_ERROR(file.Write());
  if (identity::IsName(name)) std::remove(CredentialsPath(file, name).c_str());
  session.Print(StrCat("✓ context ", name, " removed\n"));
  return kExitOk;
}

constexpr Flag kContextShowFlags[] = {kRecordOutputFlag};

absl::StatusOr<int> ShowContext(Session& session, const Arguments& arguments) {
  const Settings& settings = session.settings();
  if (arguments.Has("output")) {
    const bool is_private = session.is_private();
    RecordFields fields;
    fields.Add("name", is_private ? std::string("private") : settings.Get("context"));
    fields.Add("server", is_private
                             ? StrCat("unix:", settings.Get("runtime-dir"), "/coordinator.sock")
                             : settings.server());
    fields.Add("private", is_private);
    ASSIGN_OR_RETURN(const std::string text,
                     RecordText("Context", fields, arguments.Get("output")));
    session.Print(text);
    return kExitOk;
  }
  if (session.is_private()) {
    session.Print(StrCat("private: unix:", settings.Get("runtime-dir"),
                         "/coordinator.sock, data in ", settings.Get("data-dir"), "\n"));
  } else {
    session.Print(StrCat(settings.Get("context"), settings.Get("context").empty() ? "" : ": ",
                         settings.server(), "\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kContextLsCommand = {.name = "context ls",
                                   .place = 690,
                                   .summary = "list the coordinators that jobctl knows",
                                   .listing = true,
                                   .examples = "jobctl context ls\tthe current one has a star",
                                   .run = ListContexts};
const Command kContextUseCommand = {
    .name = "context use",
    .place = 700,
    .summary = "use this coordinator from now on",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .completes = "context",
    .examples =
        "jobctl context use lab\ta configured one\n"
        "jobctl context use private\tthis machine, started on demand",
    .run = Use};
const Command kContextAddCommand = {
    .name = "context add",
    .place = 710,
    .summary = "add a coordinator under a name",
    .arguments = "NAME HOST:PORT",
    .least = 2,
    .most = 2,
    .examples =
        "jobctl context add lab head:7700\tthen: jobctl context use lab\n"
        "jobctl context add lab other:7700 --yes\treplace the old address without confirmation",
    .run = Add};
const Command kContextRmCommand = {.name = "context rm",
                                   .place = 720,
                                   .summary = "remove a coordinator from the list",
                                   .arguments = "NAME",
                                   .least = 1,
                                   .most = 1,
                                   .completes = "context",
                                   .examples = "jobctl context rm lab\tits jobs are not affected",
                                   .run = RemoveContext};
const Command kContextShowCommand = {.name = "context show",
                                     .place = 730,
                                     .summary = "show the context in use",
                                     .flags = kContextShowFlags,
                                     .examples = "jobctl context show\tname and address",
                                     .run = ShowContext};

}  // namespace muster::client
