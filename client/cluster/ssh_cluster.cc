#include "client/cluster/ssh_cluster.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/cluster/node_scripts.h"
#include "client/cluster/program_archive.h"
#include "client/cluster/ssh.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/session/sign_in.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "identity/enroll.h"
#include "identity/join_token.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client::cluster {
namespace {

using common::StrCat;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr size_t kAtOnce = 16;
constexpr seconds kScriptWithin{60};
constexpr seconds kCopyWithin{600};
constexpr seconds kJoinWithin{60};
constexpr seconds kRemoveWithin{180};
constexpr int64_t kGraceS = 40;  // for ranks whose job is not over when the cluster is removed
constexpr int64_t kTokenLivesMs = 15 * 60'000;
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

struct Member {
  SshHost host;
  NodePlace place;
  std::string address = {};  // at which the others reach it; empty: not known here
  std::string token = {};    // to join
  bool is_prepared = false;  // something of ours may be there
};
using Members = std::vector<std::unique_ptr<Member>>;

absl::StatusOr<Members> MembersOf(const ClusterRecord& record) {
  ASSIGN_OR_RETURN(const SshSettings ssh, FindSsh(record.ssh_config, record.ssh_options));
  Members members;
  for (const SshNode& node : record.nodes) {
    members.push_back(std::make_unique<Member>(Member{.host = SshHost(ssh, node),
                                                      .place = {.cluster = record.name,
                                                                .id = record.id,
                                                                .directory = record.directory,
                                                                .node = node.name}}));
  }
  return members;
}

// Runs `work` on every member, several at once; returns one status for each.
std::vector<absl::Status> OnAll(const Members& members,
                                const std::function<absl::Status(Member&)>& work) {
  std::vector<absl::Status> done(members.size());
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < members.size(); i = next++) done[i] = work(*members[i]);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(members.size(), kAtOnce); ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  return done;
}

// The first error, after a line for each of the others.
absl::Status FirstOf(Session& session, const std::vector<absl::Status>& done) {
  absl::Status first;
  for (const absl::Status& each : done) {
    if (each.ok()) continue;
    if (first.ok()) {
      first = each;
    } else {
      session.Note(StrCat("✗ ", common::Readable(common::ProblemOf(each))));
    }
  }
  return first;
}

// An address of the host that others can use, too. Empty: this machine knows none, or only a loopback one.
std::string AddressOf(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  char text[INET_ADDRSTRLEN] = {};
  const auto* const address = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) == nullptr) return "";
  return common::IsLoopbackHost(text) ? "" : text;
}

std::string ThisMachine() {
  utsname names{};
  uname(&names);
  return StrCat(names.sysname, " ", names.machine);
}

absl::Status Prepare(Session& session, const ProgramArchive& all, const ProgramArchive& of_workers,
                     bool is_head, Member& member) {
  const ProgramArchive& programs = is_head ? all : of_workers;
  const std::string name = member.host.HostName();
  member.address = AddressOf(name);
  if (member.address.empty() && is_head) member.address = name;
  const absl::Status prepared =
      member.host
          .Run(PrepareScript(member.place, ThisMachine(), programs.unpacked_bytes / 512),
               kScriptWithin)
          .status();
  member.is_prepared = common::CodeOf(prepared) != "JC1804";  // it may have ended half way
  // If ssh broke off, the script may or may not have begun: try to remove what it made.
  if (!member.is_prepared)
    member.host.Run(RemoveScript(member.place, kGraceS), kScriptWithin).IgnoreError();
  RETURN_IF_ERROR(prepared);
  // CheckDirectory, CheckName or ParseSshNodes has accepted every word.
  const std::string line = StrCat("tar -xzf - -C ", member.place.Path(), " && chmod 700 ",
                                  member.place.Path(), "/bin/*");
  RETURN_IF_ERROR(member.host.Feed(line, programs.bytes, kCopyWithin).status());
  session.Note(StrCat("✓ ", member.host.node().name, ": programs copied (",
                      common::HumanBytes(programs.bytes.size()), ")"));
  return absl::OkStatus();
}

Member& HeadOf(const Members& members, const ClusterRecord& record) {
  return **std::find_if(members.begin(), members.end(), [&](const auto& member) {
    return member->host.node().name == record.head;
  });
}

// The administrator's token is the last one that init prints.
std::string TokenIn(const std::string& printed) {
  const size_t begin = printed.rfind("muster1.");
  if (begin == std::string::npos) return "";
  return printed.substr(begin, printed.find_first_of(" \n", begin) - begin);
}

absl::StatusOr<identity::Credentials> StartCoordinator(Session& session, const SshUp& up,
                                                       Member& head) {
  const std::string where = StrCat(head.address, ":", up.port + 1);
  ASSIGN_OR_RETURN(
      const std::string printed,
      head.host.Run(CoordinatorScript(head.place, head.address, up.port), kScriptWithin));
  const absl::StatusOr<identity::Credentials> credentials =
      identity::Enroll({.address = where,
                        .token = TokenIn(printed),
                        .node = "",
                        .within = std::chrono::milliseconds(session.settings().timeout_ms())});
  if (!credentials.ok()) {
    return common::MakeProblem(
        absl::StatusCode::kUnavailable,
        {.code = "JC1806",
         .what = StrCat("the coordinator runs on ", head.host.node().name,
                        ", but this machine cannot sign in to it at ", where),
         .why = common::ProblemOf(credentials.status()).what,
         .fix =
             StrCat("open the ports ", up.port, " and ", up.port + 1, " of ", head.host.node().name,
                    " to this machine and to the nodes, or choose others with --port")});
  }
  session.Note(StrCat("✓ ", head.host.node().name, ": coordinator at ", credentials->endpoint));
  return credentials;
}

absl::Status StartWorkers(Session& session, const SshUp& up, const std::string& https,
                          Connection& connection, const Members& members) {
  for (const auto& member : members) {
    v1::CreateTokenRequest request;
    request.set_kind(v1::TOKEN_KIND_JOIN);
    request.set_subject(member->host.node().name);
    request.set_lives_ms(kTokenLivesMs);
    ASSIGN_OR_RETURN(const v1::CreateTokenResponse made, connection.CreateToken(request));
    // It goes into a script.
    ASSIGN_OR_RETURN(const identity::TokenText token, identity::ParseToken(made.text()));
    member->token = identity::FormatToken(token);
  }
  return FirstOf(session, OnAll(members, [&](Member& member) {
                   return member.host
                       .Run(WorkerScript(member.place, {.coordinator = https,
                                                        .token = member.token,
                                                        .advertise = member.address,
                                                        .devices = up.devices,
                                                        .sandbox = up.sandbox}),
                            kScriptWithin)
                       .status();
                 }));
}

std::string DevicesOf(const v1::NodeView& node) {
  std::string text;
  for (const v1::DeviceUse& use : node.uses())
    common::StrAppend(&text, text.empty() ? "" : ", ", use.total(), " ", use.kind());
  return text;
}

absl::Status NotJoined(Member& member) {
  const absl::StatusOr<std::string> log =
      member.host.Run(WorkerLogScript(member.place), kScriptWithin);
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1807",
       .what = StrCat("the worker of ", member.host.node().name, " did not register within ",
                      kJoinWithin.count(), " s"),
       .why =
           log.ok() ? StrCat("the end of its log: ", *log) : std::string(log.status().message())});
}

// Prints a line for each node when it has registered.
absl::Status AwaitMembers(Session& session, Connection& connection, const Members& members) {
  const auto deadline = steady_clock::now() + kJoinWithin;
  std::vector<Member*> missing;
  for (const auto& member : members) missing.push_back(member.get());
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection.ListNodes());
    for (const v1::NodeView& node : nodes.nodes()) {
      const auto found = std::find_if(missing.begin(), missing.end(), [&](const Member* member) {
        return member->host.node().name == node.record().facts().name();
      });
      if (found == missing.end() || !node.record().connected() || node.clearing()) continue;
      missing.erase(found);
      session.Note(StrCat("✓ ", node.record().facts().name(), ": in, with ", DevicesOf(node)));
    }
    if (missing.empty()) return absl::OkStatus();
    if (steady_clock::now() > deadline) return NotJoined(*missing.front());
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

absl::Status Start(Session& session, const SshUp& up, const Members& members) {
  Member& head = HeadOf(members, up.record);
  ASSIGN_OR_RETURN(const ProgramArchive all, PackPrograms(true));
  ProgramArchive of_workers;
  if (members.size() > 1) {
    ASSIGN_OR_RETURN(of_workers, PackPrograms(false));
  }
  RETURN_IF_ERROR(FirstOf(session, OnAll(members, [&](Member& member) {
                            return Prepare(session, all, of_workers, &member == &head, member);
                          })));
  ASSIGN_OR_RETURN(const identity::Credentials credentials, StartCoordinator(session, up, head));
  ASSIGN_OR_RETURN(
      const auto connection,
      Connection::Open(credentials.endpoint, session.settings().timeout_ms(), &credentials));
  RETURN_IF_ERROR(StartWorkers(session, up, credentials.http, *connection, members));
  RETURN_IF_ERROR(AwaitMembers(session, *connection, members));
  return SelectContext(up.record.name, credentials);
}

}  // namespace

absl::Status BringUpOverSsh(Session& session, const SshUp& up) {
  ASSIGN_OR_RETURN(const Members members, MembersOf(up.record));
  RETURN_IF_ERROR(CreateRecord(session.settings().file(), up.record));
  const absl::Status started = Start(session, up, members);
  if (started.ok()) return started;
  // A node where nothing was made may hold files of another cluster.
  ClusterRecord left = up.record;
  std::erase_if(left.nodes, [&](const SshNode& node) {
    return std::none_of(members.begin(), members.end(), [&](const auto& member) {
      return member->is_prepared && member->host.node() == node;
    });
  });
  const absl::Status removed = TakeDownOverSsh(session, std::move(left));
  if (!removed.ok()) session.Note(StrCat("✗ ", common::Readable(common::ProblemOf(removed))));
  return started;
}

absl::Status TakeDownOverSsh(Session& session, ClusterRecord record) {
  ASSIGN_OR_RETURN(const Members members, MembersOf(record));
  const std::vector<absl::Status> done = OnAll(members, [&](Member& member) {
    RETURN_IF_ERROR(member.host.Run(RemoveScript(member.place, kGraceS), kRemoveWithin).status());
    session.Note(StrCat("✓ ", member.host.node().name, ": removed"));
    return absl::OkStatus();
  });
  ClusterRecord left = record;
  left.nodes.clear();
  std::vector<std::string> names;
  for (size_t i = 0; i < done.size(); ++i) {
    if (done[i].ok()) continue;
    left.nodes.push_back(record.nodes[i]);
    names.push_back(record.nodes[i].name);
    session.Note(StrCat("✗ ", common::Readable(common::ProblemOf(done[i]))));
  }
  if (names.empty()) return RemoveRecord(session.settings().file(), record.name);
  left.head = names.front();
  RETURN_IF_ERROR(SaveRecord(session.settings().file(), left));
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1808",
       .what = StrCat("not everything of ", record.name, " was removed from ",
                      absl::StrJoin(names, ", ")),
       .fix =
           StrCat("fix what the lines above name, then retry: jobctl cluster down ", record.name)});
}

}  // namespace muster::client::cluster
