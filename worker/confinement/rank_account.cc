// rank_account: getpwnam_r, and the thread's fsuid. Set-id calls of the C library change all threads
// of the process, so the groups are set by a plain system call.
#include "worker/confinement/rank_account.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

constexpr size_t kUserRecordBytes = 64 * 1024;
constexpr int kGroupsMax = 65'536;  // the kernel's limit
constexpr size_t kAccountBytesMax = 2 << 20;
constexpr uint32_t kNobody = 65'534;
constexpr char kAccountHead[] = "muster-account 1";

// The rights that let a process ignore the permissions of files.
constexpr uint32_t kFileRights = (1u << CAP_CHOWN) | (1u << CAP_DAC_OVERRIDE) |
                                 (1u << CAP_DAC_READ_SEARCH) | (1u << CAP_FOWNER) |
                                 (1u << CAP_FSETID) | (1u << CAP_MKNOD);

thread_local const common::LaunchAccount* acting_as = nullptr;

std::vector<uint32_t> GroupsOf(const char* name, gid_t primary) {
  int count = 64;
  std::vector<gid_t> groups(static_cast<size_t>(count));
  while (getgrouplist(name, primary, groups.data(), &count) < 0 && count <= kGroupsMax) {
    groups.resize(static_cast<size_t>(count));
  }
  groups.resize(std::min(groups.size(), static_cast<size_t>(std::max(0, count))));
  return {groups.begin(), groups.end()};
}

void SetThreadGroups(const std::vector<uint32_t>& groups) {
  static_assert(sizeof(gid_t) == sizeof(uint32_t));
  // The groups come from the user database, kGroupsMax at most, and from a file that no rank can write.
  CHECK(syscall(SYS_setgroups, groups.size(), groups.data()) == 0);
}

// The kernel takes these rights along with fsuid 0, but only from a process whose uid is 0.
void SetFileRights(bool held) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  // The kernel lets every process read its own rights, give some up, and regain those it is permitted.
  CHECK(syscall(SYS_capget, &header, sets) == 0);
  sets[0].effective = held ? sets[0].effective | (sets[0].permitted & kFileRights)
                           : sets[0].effective & ~kFileRights;
  // As above: `effective` stays within `permitted`.
  CHECK(syscall(SYS_capset, &header, sets) == 0);
}

// Read before any thread acts as another account.
const std::vector<uint32_t>& OwnGroups() {
  static const std::vector<uint32_t> own = [] {
    std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
    const int count = getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<size_t>(std::max(0, count)));
    return std::vector<uint32_t>(groups.begin(), groups.end());
  }();
  return own;
}

RankAccount Powerless() {
  RankAccount account;
  account.ids = {true, kNobody, kNobody, {kNobody}};
  account.name = "nobody";
  account.home = "/";
  return account;
}

// The lowest uid of people on this node; below it are the accounts of services.
uint32_t FirstPersonsUid() {
  constexpr uint32_t kUsual = 1'000;
  constexpr size_t kBytesMax = 256 << 10;
  const absl::StatusOr<std::string> settings = common::ReadFileOrPipe("/etc/login.defs", kBytesMax);
  if (!settings.ok()) return kUsual;
  for (const absl::string_view line : absl::StrSplit(*settings, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint32_t uid = 0;
    if (words.size() == 2 && words[0] == "UID_MIN" && absl::SimpleAtoi(words[1], &uid)) return uid;
  }
  return kUsual;
}

}  // namespace

absl::StatusOr<RankAccount> FindAccount(const AccountName& wanted) {
  std::vector<char> buffer(kUserRecordBytes);
  passwd record{};
  passwd* found = nullptr;
  const int error =
      wanted.uid ? getpwuid_r(*wanted.uid, &record, buffer.data(), buffer.size(), &found)
                 : getpwnam_r(wanted.name.c_str(), &record, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return absl::NotFoundError(error == 0 ? "it does not exist" : std::strerror(error));
  }
  RankAccount account;
  account.ids.is_other = true;
  account.ids.uid = found->pw_uid;
  account.ids.gid = found->pw_gid;
  account.ids.groups = GroupsOf(found->pw_name, found->pw_gid);
  account.name = found->pw_name;
  account.home = found->pw_dir;
  return account;
}

absl::StatusOr<RankAccount> AccountFor(const RunAs& run_as, std::string_view node,
                                       std::string_view owner, std::string_view account) {
  if (!run_as.IsOther()) return RankAccount();
  const absl::StatusOr<AccountName> name = NameAccount(run_as, owner, account);
  if (!name.ok()) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1414",
         .what = common::StrCat("node ", node, ": ranks run as their job's owner here, and ",
                                std::string(name.status().message())),
         .fix = "sign in (jobctl login), or start that worker with --run-as ACCOUNT"});
  }
  const absl::StatusOr<RankAccount> found = FindAccount(*name);
  if (!found.ok()) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1414",
         .what = common::StrCat("node ", node, ": ranks are to run as account ", name->Text(), ": ",
                                std::string(found.status().message())),
         .fix = "make the account on that node, or name another: jobctl user set USER --account "
                "NAME"});
  }
  if (found->ids.uid == 0 && !run_as.allows_root) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1415",
         .what = common::StrCat("node ", node, ": ranks are to run as account ", name->Text(),
                                ", which is root's: refused"),
         .fix = "give the job's owner another account (jobctl user set USER --account NAME), or "
                "start that worker with --allow-root"});
  }
  // An account that the node's operator names for all jobs may be a service's.
  const uint32_t first = run_as.kind == RunAs::Kind::kOwner ? FirstPersonsUid() : 0;
  if (found->ids.uid != 0 && found->ids.uid < first) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1415",
         .what = common::StrCat("node ", node, ": ranks are to run as account ", name->Text(),
                                ", uid ", found->ids.uid, ", which is a service's: refused"),
         .why =
             common::StrCat("people's accounts begin at ", first, " (UID_MIN in /etc/login.defs)"),
         .fix = "give the job's owner another account: jobctl user set USER --account NAME"});
  }
  return found;
}

Person PersonOf(const RankAccount& account) {
  if (account.ids.is_other) return {.name = account.name, .home = account.home};
  const passwd* user = getpwuid(getuid());
  if (user == nullptr) return {};
  return {.name = user->pw_name, .home = user->pw_dir};
}

std::string EncodeAccount(const RankAccount& account) {
  std::string text =
      common::StrCat(kAccountHead, "\nuid ", account.ids.uid, "\ngid ", account.ids.gid, "\n");
  for (const uint32_t group : account.ids.groups) common::StrAppend(&text, "group ", group, "\n");
  common::StrAppend(&text, "name ", account.name, "\nhome ", account.home, "\nend\n");
  return text;
}

RankAccount ReadAccount(const std::string& path) {
  const absl::StatusOr<std::string> text = common::ReadFile(path, kAccountBytesMax);
  if (absl::IsNotFound(text.status())) return RankAccount();
  if (!text.ok()) return Powerless();
  RankAccount account;
  account.ids.is_other = true;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  if (lines.size() < 4 || lines[0] != kAccountHead || lines[lines.size() - 2] != "end")
    return Powerless();
  bool has_uid = false, has_gid = false;
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> word = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    uint32_t number = 0;
    const bool is_number = absl::SimpleAtoi(word.second, &number);
    if (word.first == "uid" && is_number) account.ids.uid = number, has_uid = true;
    if (word.first == "gid" && is_number) account.ids.gid = number, has_gid = true;
    if (word.first == "group" && is_number) account.ids.groups.push_back(number);
    if (word.first == "name") account.name = word.second;
    if (word.first == "home") account.home = word.second;
  }
  return has_uid && has_gid ? account : Powerless();
}

void ActAs::Enter(const common::LaunchAccount& ids) {
  OwnGroups();
  SetThreadGroups(ids.groups);
  setfsgid(ids.gid);
  setfsuid(ids.uid);
  // Rather abort than open a job's links as root.
  CHECK(static_cast<uint32_t>(setfsuid(UINT32_MAX)) == ids.uid);
  SetFileRights(false);
  acting_as = &ids;
}

void ActAs::Leave() {
  setfsuid(geteuid());
  setfsgid(getegid());
  SetFileRights(true);
  SetThreadGroups(OwnGroups());
  acting_as = nullptr;
}

ActAs::ActAs(const RankAccount& account) : outer_(acting_as), ids_(account.ids) {
  if (ids_.is_other) Enter(ids_);
}

ActAs::~ActAs() {
  if (!ids_.is_other) return;
  Leave();
  if (outer_ != nullptr) Enter(*outer_);
}

ActAsWorker::ActAsWorker() : suspended_(acting_as) {
  if (suspended_ != nullptr) ActAs::Leave();
}

ActAsWorker::~ActAsWorker() {
  if (suspended_ != nullptr) ActAs::Enter(*suspended_);
}

}  // namespace muster::worker
