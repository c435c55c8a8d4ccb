#include "coordinator/identity/directory.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/job/rules.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/identity/directory_checks.h"

namespace muster::coordinator {
namespace {

constexpr std::string_view kUser = "user:";

using common::MakeProblem;
using common::StrCat;

bool IsActiveAdmin(const v1::User& user) {
  return user.role() == v1::ROLE_ADMIN && !user.disabled();
}

absl::Status CheckSetUser(const v1::SetUserRequest& request) {
  RETURN_IF_ERROR(CheckUserName(request.name()));
  if (request.has_role() && (request.role() < v1::ROLE_VIEWER || request.role() > v1::ROLE_ADMIN)) {
    return BadIdentity(StrCat("a person cannot have the role ", v1::Role_Name(request.role())),
                       "choose viewer, user, operator or admin");
  }
  RETURN_IF_ERROR(CheckRemark("the account", request.account()));
  RETURN_IF_ERROR(CheckRemark("the subject at the identity provider", request.oidc_subject()));
  return CheckRemark("the comment", request.comment());
}

void Merge(const v1::SetUserRequest& request, v1::User& user) {
  if (request.has_role()) user.set_role(request.role());
  if (request.has_account()) user.set_account(request.account());
  if (request.has_disabled()) user.set_disabled(request.disabled());
  if (request.has_oidc_subject()) user.set_oidc_subject(request.oidc_subject());
  if (request.has_comment()) user.set_comment(request.comment());
}

v1::Project ImplicitProject() {
  v1::Project project;
  project.set_name(std::string(Directory::kDefaultProject));
  project.set_description("jobs that name no project");
  return project;
}

using ByKind = google::protobuf::Map<std::string, uint32_t>;

// `what`: "quota".
absl::Status CheckShare(std::string_view what, const ByKind& share) {
  for (const auto& [kind, count] : share) {
    if (common::FindDeviceKind(kind) == nullptr) {
      return BadIdentity(StrCat("\"", common::Printable(kind), "\" is not a kind of device"),
                         "jobctl nodes ls shows those there are: gpu, npu, cpu");
    }
    if (count > Directory::kQuotaMax) {
      return BadIdentity(StrCat("the ", what, " of ", count, " ", kind, " is out of range"),
                         StrCat("it is 0 to ", Directory::kQuotaMax));
    }
  }
  return absl::OkStatus();
}

// 0: none.
void Merge(const ByKind& changes, ByKind& into) {
  for (const auto& [kind, count] : changes) {
    into[kind] = count;
    if (count == 0) into.erase(kind);
  }
}

// `project` with the changes; its members stay sorted. The first one closes it.
absl::Status MergeMembers(const v1::SetProjectRequest& request, v1::Project& project) {
  std::vector<std::string> members(project.members().begin(), project.members().end());
  const bool had_members = !members.empty();
  for (const std::string& member : request.add_members()) {
    RETURN_IF_ERROR(CheckUserName(member));
    members.push_back(member);
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  std::erase_if(members, [&](const std::string& member) {
    const auto& removed = request.remove_members();
    return std::find(removed.begin(), removed.end(), member) != removed.end();
  });
  if (request.has_open()) project.set_closed(!request.open());
  if (request.open() && !members.empty()) {
    return BadIdentity(StrCat("project ", project.name(), " cannot be open to every user: it has ",
                              common::Counted(members.size(), "member")),
                       "leave out the members, or remove them first");
  }
  if (!request.open() && (had_members || !members.empty())) project.set_closed(true);
  if (members.size() > Directory::kMembersMax) {
    return TooManyEntries("members of the project", Directory::kMembersMax, "remove some first");
  }
  project.clear_members();
  for (std::string& member : members) project.add_members(std::move(member));
  return absl::OkStatus();
}

}  // namespace

std::string_view UserOf(std::string_view principal) {
  if (principal.starts_with(kUser)) return principal.substr(kUser.size());
  return principal.starts_with("uid:") ? principal : std::string_view();
}

std::string PrincipalOfUser(std::string_view user) {
  if (user.empty() || user.find(':') != std::string_view::npos) return std::string(user);
  return common::StrCat(kUser, user);
}

Directory::Directory(IdentityStore& store, const common::Clock& clock)
    : store_(store), clock_(clock), view_(std::make_shared<const View>()) {}

absl::Status Directory::Load() {
  std::lock_guard lock(changing_);
  ASSIGN_OR_RETURN(const std::vector<v1::User> users, store_.Users());
  ASSIGN_OR_RETURN(const std::vector<v1::Project> projects, store_.Projects());
  ASSIGN_OR_RETURN(const std::vector<v1::Credential> revoked, store_.RevokedCredentials());
  Publish([&](View& view) {
    view = View();
    for (const v1::User& user : users) view.users[user.name()] = user;
    for (const v1::Project& project : projects) view.projects[project.name()] = project;
    for (const v1::Credential& credential : revoked) view.revoked.insert(credential.serial());
  });
  for (const v1::Project& project : projects) {
    if (project.members_leave()) continue;
    RETURN_IF_ERROR(TakeOut(project, [&](const std::string& member) {
      const bool leaves = !IsLocalAccount(member) && !FindUser(member).has_value();
      if (leaves)
        common::LogInfo(StrCat("removed a member who is not a user project=", project.name(),
                               " member=", member));
      return leaves;
    }));
  }
  return absl::OkStatus();
}

absl::Status Directory::TakeOut(v1::Project project,
                                const std::function<bool(const std::string&)>& leaves) {
  auto& members = *project.mutable_members();
  // Otherwise, without members, it would be open to everyone.
  if (!members.empty()) project.set_closed(true);
  members.erase(std::remove_if(members.begin(), members.end(), leaves), members.end());
  project.set_members_leave(true);
  RETURN_IF_ERROR(store_.PutProject(project));
  Publish([&](View& view) { view.projects[project.name()] = project; });
  return absl::OkStatus();
}

absl::Status Directory::CheckIsStill(std::string_view principal, std::string_view user_id) const {
  if (!IsGone(principal, user_id)) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1355", .what = StrCat(principal, " was removed just now")});
}

void Directory::Publish(const std::function<void(View&)>& change) {
  auto next = std::make_shared<View>(*view_.load());
  change(*next);
  view_.store(std::move(next));
}

std::optional<v1::User> Directory::FindUser(std::string_view name) const {
  const std::shared_ptr<const View> view = view_.load();
  const auto found = view->users.find(name);
  if (found == view->users.end()) return std::nullopt;
  return found->second;
}

std::optional<v1::User> Directory::FindUserByOidc(std::string_view subject) const {
  const std::shared_ptr<const View> view = view_.load();
  for (const auto& [name, user] : view->users) {
    if (!subject.empty() && user.oidc_subject() == subject) return user;
  }
  return std::nullopt;
}

std::string Directory::AccountOf(std::string_view principal) const {
  const std::optional<v1::User> user = FindUser(UserOf(principal));
  return user.has_value() ? user->account() : "";
}

bool Directory::IsGone(std::string_view principal, std::string_view user_id) const {
  if (!principal.starts_with(kUser)) return false;
  const std::optional<v1::User> user = FindUser(UserOf(principal));
  return !user.has_value() || user->id() != user_id;
}

bool Directory::IsRevoked(std::string_view serial) const {
  return view_.load()->revoked.contains(std::string(serial));
}

absl::Status Directory::CheckProject(std::string_view project, std::string_view principal) const {
  if (project.empty()) project = kDefaultProject;
  const std::shared_ptr<const View> view = view_.load();
  const auto found = view->projects.find(project);
  if (found == view->projects.end()) {
    if (project == kDefaultProject) return absl::OkStatus();
    return NoSuchEntry("project", project,
                       "jobctl project ls lists them; an administrator creates one with jobctl "
                       "project create");
  }
  const auto& members = found->second.members();
  const bool is_open = members.empty() && !found->second.closed();
  const std::string_view user = UserOf(principal);
  if (is_open || std::find(members.begin(), members.end(), user) != members.end()) {
    return absl::OkStatus();
  }
  return MakeProblem(absl::StatusCode::kPermissionDenied,
                     {.code = "JC1338",
                      .what = StrCat(principal, " is not a member of project ", project),
                      .fix = StrCat("ask an administrator for jobctl project add ", project, " ",
                                    user.empty() ? "USER" : user)});
}

std::vector<v1::User> Directory::Users() const {
  const std::shared_ptr<const View> view = view_.load();
  std::vector<v1::User> users;
  for (const auto& [name, user] : view->users) users.push_back(user);
  return users;
}

std::vector<v1::Project> Directory::Projects() const {
  const std::shared_ptr<const View> view = view_.load();
  std::vector<v1::Project> projects;
  if (!view->projects.contains(kDefaultProject)) projects.push_back(ImplicitProject());
  for (const auto& [name, project] : view->projects) projects.push_back(project);
  return projects;
}

absl::Status Directory::CheckAdminRemains(const std::optional<v1::User>& after,
                                          const std::string& name) const {
  const std::shared_ptr<const View> view = view_.load();
  const auto before = view->users.find(name);
  if (before == view->users.end() || !IsActiveAdmin(before->second)) return absl::OkStatus();
  if (after.has_value() && IsActiveAdmin(*after)) return absl::OkStatus();
  const auto admins = std::count_if(view->users.begin(), view->users.end(),
                                    [](const auto& each) { return IsActiveAdmin(each.second); });
  if (admins > 1) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1333",
                      .what = StrCat("user ", name, " is the last administrator"),
                      .fix = "make another user an administrator first: jobctl user set NAME "
                             "--role admin"});
}

absl::StatusOr<v1::User> Directory::SetUser(const v1::SetUserRequest& request,
                                            const std::string& by) {
  RETURN_IF_ERROR(CheckSetUser(request));
  std::lock_guard lock(changing_);
  std::optional<v1::User> user = FindUser(request.name());
  if (!user.has_value()) {
    if (view_.load()->users.size() >= kUsersMax) {
      return TooManyEntries("users", kUsersMax, "remove some: jobctl user rm NAME");
    }
    user = NewUser(request.name(), v1::ROLE_USER, clock_.Read().wall_ms, by);
  }
  Merge(request, *user);
  RETURN_IF_ERROR(CheckAdminRemains(user, request.name()));
  const std::optional<v1::User> same = FindUserByOidc(user->oidc_subject());
  if (same.has_value() && same->name() != user->name()) {
    return BadIdentity(StrCat("user ", same->name(), " signs in as this subject already"),
                       "take it from that user first");
  }
  RETURN_IF_ERROR(store_.PutUser(*user));
  Publish([&](View& view) { view.users[user->name()] = *user; });
  return *user;
}

absl::StatusOr<std::vector<v1::Credential>> Directory::RemoveUser(const std::string& name,
                                                                  const std::string& by) {
  std::lock_guard lock(changing_);
  if (!FindUser(name).has_value()) {
    return NoSuchEntry("user", name, "jobctl user ls lists them");
  }
  RETURN_IF_ERROR(CheckAdminRemains(std::nullopt, name));
  // Certificates first: a user who comes back must not find the old ones valid.
  ASSIGN_OR_RETURN(std::vector<v1::Credential> revoked,
                   store_.Revoke({.subject = StrCat("user/", name),
                                  .at_ms = clock_.Read().wall_ms,
                                  .by = by,
                                  .reason = "the user was removed"}));
  Publish([&](View& view) {
    for (const v1::Credential& credential : revoked) view.revoked.insert(credential.serial());
  });
  const std::shared_ptr<const View> view = view_.load();
  for (const auto& [_, project] : view->projects) {
    const auto is_this = [&](const std::string& member) { return member == name; };
    if (std::any_of(project.members().begin(), project.members().end(), is_this))
      RETURN_IF_ERROR(TakeOut(project, is_this));
  }
  RETURN_IF_ERROR(store_.RemoveUser(name).status());
  Publish([&](View& view) { view.users.erase(name); });
  return revoked;
}

absl::StatusOr<v1::Project> Directory::SetProject(const v1::SetProjectRequest& request,
                                                  const std::string& by) {
  RETURN_IF_ERROR(CheckEntryName("a project", request.name()));
  RETURN_IF_ERROR(CheckRemark("the description", request.description()));
  std::lock_guard lock(changing_);
  const std::shared_ptr<const View> view = view_.load();
  v1::Project project;
  if (const auto found = view->projects.find(request.name()); found != view->projects.end()) {
    project = found->second;
  } else if (view->projects.size() >= kProjectsMax) {
    return TooManyEntries("projects", kProjectsMax, "remove some: jobctl project rm NAME");
  } else {
    project.set_name(request.name());
    project.set_created_ms(clock_.Read().wall_ms);
    project.set_created_by(by);
    project.set_closed(request.name() != kDefaultProject);
    project.set_members_leave(true);
  }
  if (request.has_description()) project.set_description(request.description());
  RETURN_IF_ERROR(MergeMembers(request, project));
  RETURN_IF_ERROR(store_.PutProject(project));
  Publish([&](View& next) { next.projects[project.name()] = project; });
  return project;
}

absl::StatusOr<v1::Project> Directory::SetQuota(const v1::SetQuotaRequest& request,
                                                const std::string& by) {
  RETURN_IF_ERROR(CheckShare("quota", request.quota()));
  RETURN_IF_ERROR(CheckShare("limit", request.limit()));
  RETURN_IF_ERROR(CheckShare("limit of a person", request.person_limit()));
  if (request.person_jobs() > kQuotaMax) {
    return BadIdentity(StrCat("the limit of ", request.person_jobs(), " jobs is out of range"),
                       StrCat("it is 0 to ", kQuotaMax));
  }
  if (request.max_priority() < job::kPriority.least ||
      request.max_priority() > job::kPriority.most) {
    return BadIdentity(StrCat("the priority ", request.max_priority(), " is out of range"),
                       StrCat("it is ", job::kPriority.least, " to ", job::kPriority.most));
  }
  if (request.has_weight() && (request.weight() == 0 || request.weight() > kWeightMax)) {
    return BadIdentity(StrCat("the weight ", request.weight(), " is out of range"),
                       StrCat("a weight is 1 to ", kWeightMax));
  }
  std::lock_guard lock(changing_);
  const std::shared_ptr<const View> view = view_.load();
  v1::Project project;
  const auto found = view->projects.find(request.project());
  if (found != view->projects.end()) {
    project = found->second;
  } else if (request.project() == kDefaultProject) {
    project = ImplicitProject();
    project.set_created_ms(clock_.Read().wall_ms);
    project.set_created_by(by);
    project.set_members_leave(true);
  } else {
    return NoSuchEntry("project", request.project(), "jobctl project ls lists them");
  }
  Merge(request.quota(), *project.mutable_quota());
  Merge(request.limit(), *project.mutable_limit());
  Merge(request.person_limit(), *project.mutable_person_limit());
  if (request.has_weight()) project.set_weight(request.weight());
  if (request.has_person_jobs()) project.set_person_jobs(request.person_jobs());
  if (request.any_priority()) project.clear_max_priority();
  if (request.has_max_priority()) project.set_max_priority(request.max_priority());
  for (const auto& [kind, limit] : project.limit()) {
    const auto quota = project.quota().find(kind);
    if (quota == project.quota().end() || quota->second <= limit) continue;
    return BadIdentity(StrCat("the quota of project ", project.name(), " is ", quota->second, " ",
                              kind, ", and its limit ", limit),
                       "a limit is at least the quota");
  }
  RETURN_IF_ERROR(store_.PutProject(project));
  Publish([&](View& next) { next.projects[project.name()] = project; });
  return project;
}

absl::Status Directory::RemoveProject(const std::string& name) {
  if (name == kDefaultProject) {
    return MakeProblem(absl::StatusCode::kFailedPrecondition,
                       {.code = "JC1331",
                        .what = "the default project cannot be removed",
                        .fix = "restrict it with jobctl project add default USER"});
  }
  std::lock_guard lock(changing_);
  ASSIGN_OR_RETURN(const bool removed, store_.RemoveProject(name));
  if (!removed) return NoSuchEntry("project", name, "jobctl project ls lists them");
  Publish([&](View& view) { view.projects.erase(name); });
  return absl::OkStatus();
}

}  // namespace muster::coordinator
