// jobctl cluster up, ls, down: a cluster on machines that people reach already.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "client/cluster/manifests.h"
#include "client/cluster/record.h"
#include "client/cluster/slurm_cluster.h"
#include "client/cluster/slurm_script.h"
#include "client/cluster/ssh_cluster.h"
#include "client/code/code_choice.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/session/sign_in.h"
#include "client/session/spec_environment.h"
#include "client/terminal/listing.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
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

constexpr int64_t kDefaultMarginMs = 120'000;
constexpr int64_t kLeastMarginMs = 10'000;

constexpr Flag kClusterUpFlags[] = {
    {"on", 0, "WHERE", "ssh, slurm or kubernetes", "ssh|slurm|kubernetes"},
    {"nodes", 'N', "NODES", "ssh: the machines, a,user@b,c:2222,node[01-04]; slurm: how many"},
    {"dir", 0, "DIR",
     "ssh: on the nodes, best on a local disk; slurm: on the file system that all share "
     "(~/.muster/clusters)"},
    {"head", 0, "NODE", "ssh: the node of the coordinator (the first)"},
    {"devices", 0, "KINDS", "ssh: what each worker offers, like gpu or cpu:4 (all)"},
    {"sandbox", 0, "WHICH",
     "ssh: what keeps ranks apart where the account is not root (on); none for jobs that use sudo "
     "or "
     "Apptainer",
     "on|none"},
    {"port", 0, "N", "ssh: the coordinator's port; its HTTPS has the next one (7700)"},
    {"ssh-config", 0, "FILE", "ssh's configuration file, as ssh -F", {}, "file"},
    {"ssh-option", 0, "OPTION",
     "an option as ssh -o, like StrictHostKeyChecking=accept-new; may be repeated"},
    {"margin", 0, "TIME",
     "slurm: how long before the time limit jobs are stopped, to save a checkpoint (2m)"},
    {"resubmit", 0, "", "slurm: at the time limit submit the next allocation if jobs are left"},
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
  if (!record.ssh_config.empty())
    record.ssh_config = JoinedPath(WorkingDirectory(), record.ssh_config);
  ASSIGN_OR_RETURN(const int64_t port, arguments.Number("port", 1, kPortsMost, kDefaultPort));
  up.port = static_cast<uint32_t>(port);
  up.devices = arguments.Get("devices");
  up.sandbox = arguments.Get("sandbox");
  return up;
}

// On the shared file system, as all nodes name it.
absl::StatusOr<std::string> SharedDirectory(const Arguments& arguments) {
  const std::string given = arguments.Get("dir", kDefaultDirectory);
  const std::string directory =
      given[0] == '/'
          ? given
          : StrCat(arguments.Has("dir") ? WorkingDirectory() : HomeDirectory(), "/", given);
  RETURN_IF_ERROR(cluster::CheckDirectory(directory));
  return directory;
}

// A cluster of this name that is there already gets its next allocation.
absl::StatusOr<cluster::SlurmUp> ReadSlurmUp(Session& session, const Arguments& arguments) {
  cluster::SlurmUp up;
  const ConfigFile& file = session.settings().file();
  const std::string name = arguments.words().empty() ? "slurm" : arguments.words()[0];
  const bool is_known = identity::IsName(name) && common::Exists(cluster::RecordPath(file, name));
  if (is_known) {
    ASSIGN_OR_RETURN(up.record, cluster::LoadRecord(file, name));
    if (up.record.on != "slurm") return NewName(session, arguments).status();
    if (arguments.Has("dir"))
      return Usage("JC1004", StrCat(name, " has its directory already: ", up.record.directory),
                   "leave out --dir, or choose another NAME");
    if (!arguments.Has("nodes")) return up;
  } else {
    ASSIGN_OR_RETURN(up.record.name, NewName(session, arguments));
    up.record.on = "slurm";
    up.record.id = FreshId(session);
    ASSIGN_OR_RETURN(up.record.directory, SharedDirectory(arguments));
  }
  if (!arguments.Has("nodes"))
    return Usage("JC1004", "--on slurm needs the number of nodes",
                 "jobctl cluster up --on slurm -N 4");
  up.size = arguments.Get("nodes");
  RETURN_IF_ERROR(cluster::CheckSize(up.size));
  up.record.size = up.size;
  ASSIGN_OR_RETURN(const int64_t margin_ms, arguments.DurationMs("margin", kDefaultMarginMs));
  if (margin_ms < kLeastMarginMs) return Usage("JC1004", "--margin is at least 10s", "--margin 2m");
  up.margin_s = margin_ms / 1000;
  up.resubmits = arguments.Has("resubmit");
  up.flags = arguments.rest();
  for (const std::string& flag : up.flags) {
    if (flag.starts_with("-M") || flag.starts_with("--clusters"))
      return Usage("JC1004",
                   StrCat(flag, ": squeue and scancel would not find the allocation there"),
                   "run jobctl on that cluster's login node");
  }
  if (!up.flags.empty() && !up.flags.front().starts_with('-'))
    return Usage("JC1004",
                 StrCat("\"", common::Printable(up.flags.front()), "\" is not an option of sbatch"),
                 "jobctl cluster up --on slurm -N 4 -- -p gpu --time=4:00:00");
  return up;
}

absl::StatusOr<int> UpOnSlurm(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const cluster::SlurmUp up, ReadSlurmUp(session, arguments));
  RETURN_IF_ERROR(cluster::BringUpOnSlurm(session, up));
  session.Print(StrCat("✓ cluster ", up.record.name, " is up; it is the context in use\n"));
  session.Note(
      StrCat("next: jobctl run -n 2 -- python train.py   jobctl cluster down ", up.record.name));
  return kExitOk;
}

absl::StatusOr<int> UpOverSsh(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const cluster::SshUp up, ReadSshUp(session, arguments));
  RETURN_IF_ERROR(cluster::BringUpOverSsh(session, up));
  const std::string& name = up.record.name;
  session.Print(StrCat("✓ cluster ", name,
                       " is up: ", common::Counted(up.record.nodes.size(), "node"),
                       ", the coordinator on ", up.record.head, "; it is the context in use\n"));
  session.Note(StrCat("next: jobctl run -n 2 -- python train.py   jobctl cluster down ", name));
  return kExitOk;
}

bool IsOnSlurm(const Session& session, const Arguments& arguments) {
  if (arguments.Has("on") || arguments.words().empty()) return arguments.Get("on") == "slurm";
  const auto record = cluster::LoadRecord(session.settings().file(), arguments.words()[0]);
  return record.ok() && record->on == "slurm";
}

absl::StatusOr<int> ClusterUp(Session& session, const Arguments& arguments) {
  if (IsOnSlurm(session, arguments)) return UpOnSlurm(session, arguments);
  if (arguments.Get("on") == "kubernetes") {
    session.Print(cluster::KubernetesManifests());
    session.Note("what to put in and what comes next: docs/containers.md");
    return kExitOk;
  }
  if (!arguments.Has("on")) {
    return Usage("JC1004", "--on tells where the cluster is to be",
                 "jobctl cluster up --on ssh --nodes node1,node2");
  }
  if (arguments.has_rest())
    return Usage("JC1004", "what stands behind -- is for sbatch", "leave it out, or --on slurm");
  return UpOverSsh(session, arguments);
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
    if (server.live_jobs() == 0) return absl::OkStatus();
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return common::MakeProblem(absl::StatusCode::kDeadlineExceeded,
                             {.code = "JC1810",
                              .what = StrCat("not all jobs ended within ", kJobsEndWithin.count(),
                                             " s of their cancellation"),
                              .fix = "jobctl ls lists them; then retry"});
}

// With the coordinator's directory go all records: nothing of that unasked.
absl::Status EndJobs(Session& session, const Arguments& arguments, const ClusterRecord& record) {
  const auto connection = ConnectTo(session, record.name);
  if (!connection.ok() && record.on == "slurm" && !arguments.Has("cancel-jobs")) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1810",
         .what = StrCat("whether jobs wait for the next allocation of ", record.name,
                        " is not known: its coordinator runs in allocations only"),
         .why = common::ProblemOf(connection.status()).what,
         .fix = StrCat("jobctl cluster up ", record.name, " to see them; or: jobctl cluster down ",
                       record.name, " --cancel-jobs")});
  }
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
  const absl::Status done = record.on == "slurm" ? cluster::TakeDownOnSlurm(session, record)
                                                 : cluster::TakeDownOverSsh(session, record);
  if (!done.ok() && arguments.Has("forget")) {
    session.Note(StrCat("✗ ", common::ProblemOf(done).what, "; forgotten"));
    RETURN_IF_ERROR(cluster::RemoveRecord(session.settings().file(), record.name));
    RETURN_IF_ERROR(ForgetContext(record.name));
    session.Print(StrCat("✓ cluster ", record.name, " is forgotten\n"));
    return kExitOk;
  }
  RETURN_IF_ERROR(done);
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
    listing.rows.push_back(
        {Cell(Value(name == current), name == current ? "*" : ""), Cell(name), Cell(record.on),
         Cell(record.on == "slurm" ? record.size : StrCat(record.nodes.size())),
         Cell(context == file.contexts.end() ? "" : context->second),
         Cell(record.on == "slurm" ? StrCat("allocation ", record.job) : record.head),
         Cell(record.directory)});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

}  // namespace

const Command kClusterUpCommand = {
    .name = "cluster up",
    .place = 640,
    .summary = "start a cluster over ssh or in an allocation of Slurm",
    .arguments = "[NAME]",
    .most = 1,
    .flags = kClusterUpFlags,
    .rest = true,
    .examples =
        "jobctl cluster up --on ssh --nodes node1,node2\tthe coordinator on node1, a worker on "
        "both\n"
        "jobctl cluster up lab --on ssh --nodes alice@node[01-04]\tfour nodes, as alice\n"
        "jobctl cluster up --on slurm -N 4 -- -p gpu -t 4:00:00\tfour nodes of an allocation; "
        "flags of sbatch\n"
        "jobctl cluster up --on kubernetes | kubectl apply -f -\tthe manifests",
    .notes =
        "ssh: the programs beside jobctl are copied to each node, which needs nothing\n"
        "but ssh. Jobs run as the account that ssh reaches. This machine and all nodes\n"
        "must reach two ports of the head. If a node fails, all are cleaned up again.\n"
        "slurm: the coordinator and a worker on each node run in the allocation. Before\n"
        "its time limit jobs are stopped with SIGTERM, to save; `jobctl cluster up NAME`\n"
        "gets the next allocation, where they continue from their checkpoints.\n"
        "The default NAME is the value of --on. docs/clusters.md has more.",
    .run = ClusterUp};
const Command kClusterDownCommand = {
    .name = "cluster down",
    .place = 660,
    .summary = "stop a cluster and remove it from its nodes",
    .arguments = "[NAME]",
    .most = 1,
    .flags = kClusterDownFlags,
    .completes = "context",
    .examples =
        "jobctl cluster down\tthe one in use, when no job is running\n"
        "jobctl cluster down lab --cancel-jobs --yes\tand cancel all jobs, without confirmation",
    .run = ClusterDown};
const Command kClusterLsCommand = {.name = "cluster ls",
                                   .place = 650,
                                   .summary = "list the clusters that this jobctl started",
                                   .listing = true,
                                   .examples = "jobctl cluster ls\tthe one in use has a star",
                                   .run = ListClusters};

}  // namespace muster::client
