// jobctl project ls, create, quota, rm, add, remove.
#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/base/status.h"
#include "common/job/rules.h"
#include "common/text/strings.h"
#include "common/text/text.h"

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

constexpr Flag kProjectQuotaFlags[] = {
    {"limit", 0, "KIND=N", "it never has more than N of the kind; 0: no limit (repeatable)"},
    {"weight", 0, "N", "how much more than others it may borrow (1)"},
    {"person-limit", 0, "KIND=N", "one of its people never has more at once; 0: no limit"},
    {"person-jobs", 0, "N", "jobs of one of its people that run at once; 0: no limit"},
    {"max-priority", 0, "P", "the highest that its jobs may have; any: no highest"},
};

// "gpu 24 of 16, 8 borrowed, limit 32, 4 wait": one for each kind.
std::string Uses(const v1::ListProjectsResponse& page, const std::string& project) {
  const bool has_quotas = std::any_of(page.uses().begin(), page.uses().end(),
                                      [](const v1::ProjectUse& use) { return use.quota() > 0; });
  std::vector<std::string> kinds;
  for (const v1::ProjectUse& use : page.uses()) {
    if (use.project() != project) continue;
    kinds.push_back(StrCat(use.kind(), " ", use.used(),
                           has_quotas ? StrCat(" of ", use.quota()) : "",
                           use.borrowed() > 0 ? StrCat(", ", use.borrowed(), " borrowed") : "",
                           use.limit() > 0 ? StrCat(", limit ", use.limit()) : "",
                           use.waiting() > 0 ? StrCat(", ", use.waiting(), " wait") : ""));
  }
  return absl::StrJoin(kinds, "; ");
}

// For programs: by kind.
Cell Counts(const v1::ListProjectsResponse& page, const std::string& project,
            uint64_t (v1::ProjectUse::*count)() const) {
  Pairs by_kind;
  for (const v1::ProjectUse& use : page.uses()) {
    if (use.project() == project && (use.*count)() > 0)
      by_kind[use.kind()] = std::to_string((use.*count)());
  }
  std::vector<std::string> texts;
  for (const auto& [kind, number] : by_kind) texts.push_back(StrCat(kind, " ", number));
  return Cell(Value(by_kind), absl::StrJoin(texts, ", "));
}

std::vector<std::string> LimitsOfPeople(const v1::Project& project) {
  std::vector<std::string> parts;
  const std::map<std::string, uint32_t> by_kind(project.person_limit().begin(),
                                                project.person_limit().end());
  for (const auto& [kind, count] : by_kind)
    parts.push_back(StrCat("at most ", kind, " ", count, " per person"));
  if (project.person_jobs() > 0)
    parts.push_back(
        StrCat("at most ", common::Counted(project.person_jobs(), "job"), " per person at once"));
  if (project.has_max_priority())
    parts.push_back(StrCat("priority at most ", project.max_priority()));
  return parts;
}

absl::StatusOr<int> ListProjects(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing;
  listing.kind = "ProjectList";
  listing.columns = {{.key = "name"},
                     {.key = "devices"},
                     {.key = "quota", .wide = true},
                     {.key = "limit", .wide = true},
                     {.key = "used", .wide = true},
                     {.key = "borrowed", .wide = true},
                     {.key = "waiting", .wide = true},
                     {.key = "weight", .wide = true},
                     {.key = "people", .wide = true},
                     {.key = "members", .list = true},
                     {.key = "description", .shrink = true},
                     {.key = "created", .wide = true, .value_name = "created_ms", .since = true},
                     {.key = "by", .wide = true}};
  v1::ListProjectsRequest request;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListProjectsResponse page, connection->ListProjects(request));
    for (const v1::Project& project : page.projects()) {
      const bool is_implicit = project.created_ms() == 0;
      listing.rows.push_back({Cell(project.name()), Cell(Uses(page, project.name())),
                              Counts(page, project.name(), &v1::ProjectUse::quota),
                              Counts(page, project.name(), &v1::ProjectUse::limit),
                              Counts(page, project.name(), &v1::ProjectUse::used),
                              Counts(page, project.name(), &v1::ProjectUse::borrowed),
                              Counts(page, project.name(), &v1::ProjectUse::waiting),
                              Cell(static_cast<int64_t>(std::max(1u, project.weight()))),
                              Cell(absl::StrJoin(LimitsOfPeople(project), ", ")),
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

// "gpu=64".
absl::Status TakeCount(const std::string& text,
                       google::protobuf::Map<std::string, uint32_t>* counts) {
  const size_t equals = text.find('=');
  uint32_t count = 0;
  if (equals == std::string::npos || equals == 0 ||
      !absl::SimpleAtoi(text.substr(equals + 1), &count)) {
    return Usage("JC1004", StrCat("\"", text, "\" is not KIND=N"),
                 "jobctl project quota vision gpu=64");
  }
  (*counts)[text.substr(0, equals)] = count;
  return absl::OkStatus();
}

absl::StatusOr<int> SetQuota(Session& session, const Arguments& arguments) {
  v1::SetQuotaRequest request;
  request.set_project(arguments.words()[0]);
  for (size_t i = 1; i < arguments.words().size(); ++i)
    RETURN_IF_ERROR(TakeCount(arguments.words()[i], request.mutable_quota()));
  for (const std::string& limit : arguments.All("limit"))
    RETURN_IF_ERROR(TakeCount(limit, request.mutable_limit()));
  if (arguments.Has("weight")) {
    ASSIGN_OR_RETURN(const int64_t weight, arguments.Number("weight", 1, 1'000, 1));
    request.set_weight(static_cast<uint32_t>(weight));
  }
  for (const std::string& limit : arguments.All("person-limit"))
    RETURN_IF_ERROR(TakeCount(limit, request.mutable_person_limit()));
  if (arguments.Has("person-jobs")) {
    ASSIGN_OR_RETURN(const int64_t most, arguments.Number("person-jobs", 0, 1'000'000, 0));
    request.set_person_jobs(static_cast<uint32_t>(most));
  }
  if (arguments.Get("max-priority") == "any") {
    request.set_any_priority(true);
  } else if (arguments.Has("max-priority")) {
    ASSIGN_OR_RETURN(const int64_t most, arguments.Number("max-priority", job::kPriority.least,
                                                          job::kPriority.most, 0));
    request.set_max_priority(static_cast<int32_t>(most));
  }
  v1::SetQuotaRequest nothing;
  nothing.set_project(request.project());
  if (request.ByteSizeLong() == nothing.ByteSizeLong())
    return Usage("JC1004", "there is nothing to set", "jobctl project quota vision gpu=64");
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::SetQuotaResponse response, connection->SetQuota(request));
  std::vector<std::string> parts;
  const v1::Project& project = response.project();
  for (const auto& [kind, count] : std::map(project.quota().begin(), project.quota().end()))
    parts.push_back(StrCat("quota ", kind, " ", count));
  for (const auto& [kind, count] : std::map(project.limit().begin(), project.limit().end()))
    parts.push_back(StrCat("limit ", kind, " ", count));
  if (project.weight() > 1) parts.push_back(StrCat("weight ", project.weight()));
  for (std::string& part : LimitsOfPeople(project)) parts.push_back(std::move(part));
  session.Print(StrCat("✓ project ", project.name(), ": ",
                       parts.empty() ? "no quota" : absl::StrJoin(parts, ", "), "\n"));
  for (const std::string& warning : response.warnings())
    session.Note(StrCat("warning: ", common::Printable(warning)));
  return kExitOk;
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
const Command kProjectQuotaCommand = {
    .name = "project quota",
    .place = 535,
    .summary = "set the devices that a project gets first, and its limit",
    .arguments = "NAME [KIND=N…]",
    .least = 1,
    .most = -1,
    .flags = kProjectQuotaFlags,
    .examples =
        "jobctl project quota vision gpu=64\tit gets 64 gpus first, and may borrow more\n"
        "jobctl project quota vision gpu=64 --limit gpu=96 --weight 2\tat most 96\n"
        "jobctl project quota vision gpu=0\tno quota: it borrows\n"
        "jobctl project quota vision --person-limit gpu=16 --max-priority 10\tfor its people",
    .notes =
        "For operators and administrators. Once some project has a quota, each project\n"
        "has its own queue: see docs/scheduling.md.",
    .run = SetQuota};
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
