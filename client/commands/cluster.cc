// jobctl cluster up, ls, down: a cluster on machines that people reach already.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "client/arguments.h"
#include "client/cluster/record.h"
#include "client/cluster/ssh_cluster.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/listing.h"
#include "client/session.h"
#include "client/sign_in.h"
#include "common/files.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "identity/names.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using cluster::ClusterRecord;
using common::StrCat;

constexpr int64_t kPortsMost = 65'534;
constexpr int64_t kDefaultPort = 7700;
constexpr std::string_view kDefaultDirectory = ".muster/clusters";
constexpr auto kJobsEndWithin = std::chrono::seconds(60);
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

constexpr Flag kClusterUpFlags[] = {
    {"on", 0, "WHERE", "ssh: machines that you reach by ssh", "ssh"},
    {"nodes", 'N', "NODES", "the machines: a,user@b,c:2222,node[01-04]"},
    {"head", 0, "NODE", "the node of the coordinator (the first)"},
    {"devices", 0, "KINDS", "what each worker offers, like gpu or cpu:4 (all)"},
    {"port", 0, "N", "the coordinator's port; its HTTPS has the next one (7700)"},
    {"dir", 0, "DIR", "directory on the nodes (~/.muster/clusters); put it on a local disk"},
    {"ssh-config", 0, "FILE", "ssh's configuration file, as ssh -F", {}, "file"},
    {"ssh-option", 0, "OPTION",
     "an option as ssh -o, like StrictHostKeyChecking=accept-new; may be repeated"},
};
constexpr Flag kClusterDownFlags[] = {
    {"cancel-jobs", 0, "", "cancel jobs that are still running or queued"},
    {"forget", 0, "", "give up nodes that cannot be reached, whatever is left on them"},
};

std::string FreshId(Session& session) { return session.idempotency_key(); }

// A name that is free, here and as a context.
absl::StatusOr<std::string> NewName(const Session& session, const Arguments& arguments) {
  const std::string name = arguments.words().empty() ? arguments.Get("on") : arguments.words()[0];
  RETURN_IF_ERROR(identity::CheckName("the cluster", name));
  const ConfigFile& file = session.settings().file();
  const bool is_cluster = common::Exists(cluster::RecordPath(file, name));
  if (!is_cluster && file.contexts.count(name) == 0 && name != "private") return name;
  return common::MakeProblem(
      absl::StatusCode::kAlreadyExists,
      {.code = "JC1809",
       .what = StrCat("there is a ", is_cluster ? "cluster" : "context", " named ", name),
       .fix = StrCat("jobctl cluster up OTHER-NAME …",
                     is_cluster ? StrCat("; or first: jobctl cluster down ", name) : "")});
}

absl::StatusOr<cluster::SshUp> ReadSshUp(Session& session, const Arguments& arguments) {
  cluster::SshUp up;
  ClusterRecord& record = up.record;
  record.on = "ssh";
  ASSIGN_OR_RETURN(record.name, NewName(session, arguments));
  record.id = FreshId(session);
  if (!arguments.Has("nodes"))
    return Usage("JC1004", "--on ssh needs --nodes",
                 "jobctl cluster up --on ssh --nodes node1,node2");
  ASSIGN_OR_RETURN(record.nodes, cluster::ParseSshNodes(arguments.Get("nodes")));
  record.head = arguments.Get("head", record.nodes.front().name);
  if (std::none_of(record.nodes.begin(), record.nodes.end(),
                   [&](const auto& node) { return node.name == record.head; })) {
    return Usage("JC1801",
                 StrCat("--head: ", common::Printable(record.head), " is not among --nodes"),
                 StrCat("--head ", record.nodes.front().name));
  }
  record.directory = arguments.Get("dir", kDefaultDirectory);
  RETURN_IF_ERROR(cluster::CheckDirectory(record.directory));
  record.ssh_options = arguments.All("ssh-option");
  record.ssh_config = arguments.Get("ssh-config");
  ASSIGN_OR_RETURN(const int64_t port, arguments.Number("port", 1, kPortsMost, kDefaultPort));
  up.port = static_cast<uint32_t>(port);
  up.devices = arguments.Get("devices");
  return up;
}

absl::StatusOr<int> ClusterUp(Session& session, const Arguments& arguments) {
  if (!arguments.Has("on")) {
    return Usage("JC1004", "--on tells where the cluster is to be",
                 "jobctl cluster up --on ssh --nodes node1,node2");
  }
  ASSIGN_OR_RETURN(const cluster::SshUp up, ReadSshUp(session, arguments));
  RETURN_IF_ERROR(cluster::BringUpOverSsh(session, up));
  const std::string& name = up.record.name;
  session.Print(StrCat("✓ cluster ", name,
                       " is up: ", common::Counted(up.record.nodes.size(), "node"),
                       ", the coordinator on ", up.record.head, "; it is the context in use\n"));
  session.Note(StrCat("next: jobctl run -n 2 -- python train.py   jobctl cluster down ", name));
  return kExitOk;
}

// The one that is named, that is in use, or the only one.
absl::StatusOr<ClusterRecord> WhichCluster(const Session& session, const Arguments& arguments) {
  const ConfigFile& file = session.settings().file();
  if (!arguments.words().empty()) return cluster::LoadRecord(file, arguments.words()[0]);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, cluster::RecordNames(file));
  const std::string current = session.settings().Get("context");
  if (std::find(names.begin(), names.end(), current) != names.end())
    return cluster::LoadRecord(file, current);
  if (names.size() == 1) return cluster::LoadRecord(file, names.front());
  return Usage("JC1004",
               names.empty() ? "this jobctl has started no cluster" : "which of several clusters?",
               names.empty() ? "jobctl cluster up --on ssh --nodes node1,node2"
                             : StrCat("jobctl cluster down ", names.front()));
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectTo(const Session& session,
                                                      const std::string& name) {
  ASSIGN_OR_RETURN(const identity::Credentials credentials,
                   identity::LoadCredentials(CredentialsPath(session.settings().file(), name)));
  return Connection::Open(credentials.endpoint, session.settings().timeout_ms(), &credentials);
}

absl::Status CancelJobs(Connection& connection) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : {v1::JOB_STATE_QUEUED, v1::JOB_STATE_STARTING,
                                   v1::JOB_STATE_RUNNING, v1::JOB_STATE_RESTARTING})
    request.add_states(state);
  const auto deadline = std::chrono::steady_clock::now() + kJobsEndWithin;
  while (std::chrono::steady_clock::now() < deadline) {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs, connection.ListJobs(request));
    if (jobs.jobs_size() > 0) {
      v1::CancelJobsRequest cancel;
      for (const v1::JobSummary& job : jobs.jobs()) cancel.add_jobs(job.name());
      cancel.set_reason("the cluster is taken down");
      RETURN_IF_ERROR(connection.CancelJobs(cancel).status());
    }
    ASSIGN_OR_RETURN(const v1::GetServerResponse server, connection.GetServer());
    if (server.live_jobs() == 0) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return absl::OkStatus();
}

// With the coordinator's directory go all records: nothing of that unasked.
absl::Status EndJobs(Session& session, const Arguments& arguments, const ClusterRecord& record) {
  const auto connection = ConnectTo(session, record.name);
  if (!connection.ok()) {
    session.Note(StrCat("the coordinator of ", record.name,
                        " does not answer: ", common::ProblemOf(connection.status()).what));
    return session.Confirm(StrCat("Remove ", record.name, " without it, whatever runs there?"));
  }
  ASSIGN_OR_RETURN(const v1::GetServerResponse server, (*connection)->GetServer());
  const uint32_t live = server.live_jobs();
  if (live > 0 && !arguments.Has("cancel-jobs")) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1810",
         .what = StrCat(live, live == 1 ? " job of " : " jobs of ", record.name,
                        live == 1 ? " is not over" : " are not over"),
         .fix = StrCat("wait for them, or: jobctl cluster down ", record.name, " --cancel-jobs")});
  }
  v1::ListJobsRequest any;
  any.set_all(true);
  any.set_limit(1);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs, (*connection)->ListJobs(any));
  if (jobs.jobs_size() > 0) {
    RETURN_IF_ERROR(session.Confirm(StrCat("The records, logs and checkpoints of all jobs of ",
                                           record.name, " are removed with it. Take it down?")));
  }
  return live > 0 ? CancelJobs(**connection) : absl::OkStatus();
}

absl::Status ForgetContext(const std::string& name) {
  ASSIGN_OR_RETURN(ConfigFile file, ConfigFile::Read());
  std::remove(CredentialsPath(file, name).c_str());
  if (file.contexts.erase(name) == 0) return absl::OkStatus();
  if (file.current == name) file.current.clear();
  return file.Write();
}

absl::StatusOr<int> ClusterDown(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const ClusterRecord record, WhichCluster(session, arguments));
  RETURN_IF_ERROR(EndJobs(session, arguments, record));
  const absl::Status done = cluster::TakeDownOverSsh(session, record);
  if (!done.ok() && arguments.Has("forget")) {
    session.Note(StrCat("✗ ", common::ProblemOf(done).what, "; forgotten"));
    RETURN_IF_ERROR(cluster::RemoveRecord(session.settings().file(), record.name));
  } else {
    RETURN_IF_ERROR(done);
  }
  RETURN_IF_ERROR(ForgetContext(record.name));
  session.Print(StrCat("✓ cluster ", record.name, " is down; nothing of it is left\n"));
  return kExitOk;
}

absl::StatusOr<int> ListClusters(Session& session, const Arguments& arguments) {
  const ConfigFile& file = session.settings().file();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, cluster::RecordNames(file));
  Listing listing;
  listing.kind = "ClusterList";
  listing.columns = {{.key = "current"},
                     {.key = "name"},
                     {.key = "on"},
                     {.key = "nodes", .right = true},
                     {.key = "server"},
                     {.key = "head"},
                     {.key = "dir", .wide = true}};
  listing.name_column = 1;
  const std::string current = session.settings().Get("context");
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const ClusterRecord record, cluster::LoadRecord(file, name));
    const auto context = file.contexts.find(name);
    listing.rows.push_back({Cell(Value(name == current), name == current ? "*" : ""), Cell(name),
                            Cell(record.on), Cell(static_cast<int64_t>(record.nodes.size())),
                            Cell(context == file.contexts.end() ? "" : context->second),
                            Cell(record.head), Cell(record.directory)});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

}  // namespace

const Command kClusterUpCommand = {
    .name = "cluster up",
    .summary = "start a cluster on machines that you reach by ssh",
    .arguments = "[NAME]",
    .most = 1,
    .flags = kClusterUpFlags,
    .examples =
        "jobctl cluster up --on ssh --nodes node1,node2\tthe coordinator on node1, a worker on "
        "both\n"
        "jobctl cluster up lab --on ssh --nodes alice@node[01-04]\tfour nodes, as alice",
    .notes =
        "The programs beside jobctl are copied to each node, which needs nothing but\n"
        "ssh. Jobs run as the account that ssh reaches. This machine and all nodes must\n"
        "reach two ports of the head. If a node fails, all are cleaned up again.\n"
        "NAME is by default what --on says. docs/clusters.md has more.",
    .run = ClusterUp};
const Command kClusterDownCommand = {
    .name = "cluster down",
    .summary = "stop a cluster and remove it from its nodes",
    .arguments = "[NAME]",
    .most = 1,
    .flags = kClusterDownFlags,
    .examples =
        "jobctl cluster down\tthe one in use, when no job is running\n"
        "jobctl cluster down lab --cancel-jobs --yes\tand cancel all jobs, without confirmation",
    .run = ClusterDown};
const Command kClusterLsCommand = {.name = "cluster ls",
                                   .summary = "list the clusters that this jobctl started",
                                   .listing = true,
                                   .examples = "jobctl cluster ls\tthe one in use has a star",
                                   .run = ListClusters};

}  // namespace muster::client
