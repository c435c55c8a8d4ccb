// jobctl project ls, create, rm, add, remove.
#include "absl/strings/str_join.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kProjectCreateFlags[] = {
    {"description", 0, "TEXT", "what it is for"},
    {"member", 0, "USER", "who may submit to it (repeatable); none: no one yet"},
    {"open", 0, "", "every user may submit to it; it has no members"},
};

std::string Members(const v1::Project& project) {
  if (!project.members().empty()) return absl::StrJoin(project.members(), ", ");
  return project.closed() ? "no one yet" : "every user";
}

absl::StatusOr<int> ListProjects(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing;
  listing.kind = "ProjectList";
  listing.columns = {{.key = "name"},
                     {.key = "members", .list = true},
                     {.key = "description", .shrink = true},
                     {.key = "created", .wide = true, .value_name = "created_ms", .since = true},
                     {.key = "by", .wide = true}};
  v1::ListProjectsRequest request;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListProjectsResponse page, connection->ListProjects(request));
    for (const v1::Project& project : page.projects()) {
      const bool is_implicit = project.created_ms() == 0;
      listing.rows.push_back({Cell(project.name()),
                              Cell(Value(absl::StrJoin(project.members(), ",")), Members(project)),
                              Cell(project.description()),
                              is_implicit ? Cell() : AgeCell(project.created_ms()),
                              Cell(project.created_by())});
    }
    if (!page.more() || page.projects().empty()) break;
    request.set_after(page.projects().rbegin()->name());
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> SendProject(Session& session, const v1::SetProjectRequest& request) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::Project project, connection->SetProject(request));
  session.Print(StrCat("✓ project ", project.name(), " is for ", Members(project), "\n"));
  return kExitOk;
}

absl::StatusOr<int> CreateProject(Session& session, const Arguments& arguments) {
  v1::SetProjectRequest request;
  request.set_name(arguments.words()[0]);
  if (arguments.Has("description")) request.set_description(arguments.Get("description"));
  for (const std::string& member : arguments.All("member")) request.add_add_members(member);
  if (arguments.Has("open")) request.set_open(true);
  return SendProject(session, request);
}

absl::StatusOr<int> AddMembers(Session& session, const Arguments& arguments) {
  v1::SetProjectRequest request;
  request.set_name(arguments.words()[0]);
  for (size_t i = 1; i < arguments.words().size(); ++i) {
    request.add_add_members(arguments.words()[i]);
  }
  return SendProject(session, request);
}

absl::StatusOr<int> RemoveMembers(Session& session, const Arguments& arguments) {
  v1::SetProjectRequest request;
  request.set_name(arguments.words()[0]);
  for (size_t i = 1; i < arguments.words().size(); ++i) {
    request.add_remove_members(arguments.words()[i]);
  }
  return SendProject(session, request);
}

absl::StatusOr<int> RemoveProjects(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& name : arguments.words()) {
    v1::RemoveProjectRequest request;
    request.set_name(name);
    RETURN_IF_ERROR(connection->RemoveProject(request).status());
    session.Print(StrCat("✓ project ", name, " was removed; its jobs stay\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kProjectLsCommand = {.name = "project ls",
                                   .place = 520,
                                   .summary = "list projects",
                                   .listing = true,
                                   .examples = "jobctl project ls\twhich exist, and for whom",
                                   .run = ListProjects};
const Command kProjectCreateCommand = {
    .name = "project create",
    .place = 530,
    .summary = "create a project, or change its description",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .flags = kProjectCreateFlags,
    .examples =
        "jobctl project create vision --member alice\tonly alice submits to it\n"
        "jobctl project create shared --open\tevery user does",
    .run = CreateProject};
const Command kProjectAddCommand = {
    .name = "project add",
    .place = 540,
    .summary = "let users submit to a project",
    .arguments = "NAME USER…",
    .least = 2,
    .most = -1,
    .examples = "jobctl project add vision bob\tand the members that it has",
    .notes = "The first member of a project that is open to every user closes it to others.",
    .run = AddMembers};
const Command kProjectRemoveCommand = {
    .name = "project remove",
    .place = 550,
    .summary = "no longer let users submit to a project",
    .arguments = "NAME USER…",
    .least = 2,
    .most = -1,
    .examples = "jobctl project remove vision bob\this jobs in it stay",
    .run = RemoveMembers};
const Command kProjectRmCommand = {.name = "project rm",
                                   .place = 560,
                                   .summary = "remove projects; their jobs stay",
                                   .arguments = "NAME…",
                                   .least = 1,
                                   .most = -1,
                                   .examples = "jobctl project rm vision\tno new jobs in it",
                                   .run = RemoveProjects};

}  // namespace muster::client
