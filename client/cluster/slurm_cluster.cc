#include "client/cluster/slurm_cluster.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "client/cluster/slurm_script.h"
#include "client/connection/connection.h"
#include "client/machine/child_output.h"
#include "client/session/private_coordinator.h"
#include "client/session/session.h"
#include "client/session/sign_in.h"
#include "client/session/spec_environment.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/enroll.h"
#include "identity/names.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client::cluster {
namespace {

using common::StrCat;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kSlurmWithin{60};
constexpr seconds kNodesWithin{120};
constexpr seconds kEndWithin{120};
constexpr auto kBetweenQuestions = seconds(2);
constexpr auto kBetweenAnswers = std::chrono::milliseconds(500);
constexpr size_t kProgramMax = 512 << 20;
constexpr size_t kReadyMax = 8 * 1024;
constexpr size_t kLogTail = 600;
constexpr int kUnansweredMax = 30;
constexpr int kAbsencesMin = 3;  // a site's squeue may be a cache
constexpr seconds kOrderlyWithin{60};

std::string RootOf(const ClusterRecord& record) {
  return StrCat(record.directory, "/", record.name);
}

absl::Status SlurmFailed(const std::string& program, std::string why) {
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1811",
                              .what = StrCat(program, " failed"),
                              .why = why.empty() ? "it wrote nothing" : std::move(why)});
}

// The output of one of Slurm's programs.
absl::StatusOr<std::string> AskSlurm(std::vector<std::string> words) {
  const std::string program = words[0];
  words[0] = FindInDirectories(program, Variable("PATH"));
  if (words[0].empty()) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1811",
         .what = StrCat("this machine has no ", program, " on its PATH"),
         .fix = "run jobctl where you submit jobs to Slurm; or jobctl cluster up --on ssh"});
  }
  // squeue's own variables could hide what this asks for.
  std::vector<std::string> environment = OwnEnvironment();
  std::erase_if(environment, [](const std::string& each) { return each.starts_with("SQUEUE_"); });
  const absl::StatusOr<ChildOutput> output =
      OutputOfChild({.argv = words, .environment = std::move(environment), .limit = kSlurmWithin});
  if (!output.ok()) return SlurmFailed(program, std::string(output.status().message()));
  if (!output->whole || output->status != 0) {
    const absl::string_view errors = absl::StripAsciiWhitespace(output->errors);
    return SlurmFailed(program, common::Printable(common::FromAbsl(errors)));
  }
  return std::string(absl::StripAsciiWhitespace(output->text));
}

struct Allocation {
  std::string job;
  std::string state;   // "PENDING", "RUNNING", "COMPLETING"
  std::string reason;  // why it is pending
};
// This cluster's allocations, the newest first.
absl::StatusOr<std::vector<Allocation>> AllocationsOf(const ClusterRecord& record) {
  ASSIGN_OR_RETURN(const std::string text,
                   AskSlurm({"squeue", "-h", "-S", "-i", "-u", StrCat(getuid()), "-n",
                             SlurmName(record.name, record.id), "-o", "%A %T %r"}));
  std::vector<Allocation> allocations;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    if (words.size() == 3) allocations.push_back({words[0], words[1], words[2]});
  }
  return allocations;
}

// It runs, or will run; "CONFIGURING" and "SUSPENDED" count, too.
bool IsToCome(const Allocation& allocation) { return allocation.state != "COMPLETING"; }

// The script's programs; a running one is replaced, not overwritten.
absl::Status CopyPrograms(const std::string& directory) {
  RETURN_IF_ERROR(common::MakeDirectories(directory));
  for (const char* name : {"jobctl", "muster-coordinator", "muster-worker", "muster-shim",
                           "muster-rendezvous", "muster-unwind"}) {
    ASSIGN_OR_RETURN(const std::string path, FindProgram(name));
    ASSIGN_OR_RETURN(const std::string content, common::ReadFile(path, kProgramMax));
    const std::string target = StrCat(directory, "/", name);
    const auto known = common::ReadFile(target, kProgramMax);
    if (known.ok() && *known == content) continue;
    RETURN_IF_ERROR(common::WriteFileDurably(target, content, 0700));
  }
  return absl::OkStatus();
}

std::string WhoSignsIn() {
  const passwd* const own = getpwuid(geteuid());
  const std::string name = own == nullptr ? "" : own->pw_name;
  return name != "root" && identity::IsName(name) ? name : "admin";
}

// Writes nothing if the directory exists and is not the cluster's.
absl::Status MakeRoot(const SlurmUp& up) {
  const std::string root = RootOf(up.record);
  const absl::StatusOr<std::string> id = common::ReadFile(root + "/id", 64);
  if (common::Exists(root) && (!id.ok() || *id != up.record.id)) {
    return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                               {.code = "JC1809",
                                .what = StrCat(root, " exists and is not this cluster's"),
                                .fix = "another NAME, or another --dir"});
  }
  RETURN_IF_ERROR(common::MakeDirectories(root + "/log"));
  if (!id.ok()) RETURN_IF_ERROR(common::WriteFileDurably(root + "/id", up.record.id));
  ASSIGN_OR_RETURN(const std::vector<Allocation> allocations, AllocationsOf(up.record));
  // Does not replace programs that an allocation is running.
  if (std::any_of(allocations.begin(), allocations.end(), IsToCome)) return absl::OkStatus();
  RETURN_IF_ERROR(CopyPrograms(root + "/bin"));
  if (up.size.empty()) return absl::OkStatus();
  const SlurmScript script{.cluster = up.record.name,
                           .id = up.record.id,
                           .directory = root,
                           .size = up.size,
                           .admin = WhoSignsIn(),
                           .flags = up.flags,
                           .margin_s = up.margin_s,
                           .resubmits = up.resubmits};
  RETURN_IF_ERROR(common::WriteFileDurably(root + "/node.sh", NodeScript(script), 0700));
  std::string flags;
  for (const std::string& flag : up.flags) common::StrAppend(&flags, flag, std::string(1, '\0'));
  RETURN_IF_ERROR(common::WriteFileDurably(root + "/flags", flags));
  return common::WriteFileDurably(root + "/job.sh", JobScript(script), 0700);
}

// An allocation that waits or runs already is used instead.
absl::StatusOr<std::string> Submit(Session& session, const ClusterRecord& record) {
  ASSIGN_OR_RETURN(const std::vector<Allocation> allocations, AllocationsOf(record));
  for (const Allocation& allocation : allocations) {
    if (IsToCome(allocation)) {
      session.Note(StrCat("✓ allocation ", allocation.job, " was submitted before"));
      return allocation.job;
    }
  }
  const std::string root = RootOf(record);
  ASSIGN_OR_RETURN(const std::string flags, common::ReadFile(root + "/flags", 64 * 1024));
  std::vector<std::string> words = {"sbatch", "--parsable"};
  for (const absl::string_view flag : absl::StrSplit(flags, '\0', absl::SkipEmpty()))
    words.emplace_back(flag);
  for (std::string& flag : OwnFlags(record.name, record.id)) words.push_back(std::move(flag));
  words.push_back(root + "/job.sh");
  ASSIGN_OR_RETURN(const std::string printed, AskSlurm(words));
  // "JOB" or "JOB;CLUSTER", after any messages of the site.
  std::string job = printed.substr(printed.find_last_of('\n') + 1);
  job = job.substr(0, job.find(';'));
  if (job.empty() || job.find_first_not_of("0123456789") != std::string::npos)
    return SlurmFailed("sbatch",
                       StrCat("it printed \"", common::Printable(printed.substr(0, 100)), "\""));
  session.Note(StrCat("✓ allocation ", job, " is submitted"));
  return job;
}

absl::Status Ended(const ClusterRecord& record) {
  const std::string path = StrCat(RootOf(record), "/log/slurm-", record.job);
  const absl::StatusOr<std::string> log = common::ReadFile(path);
  std::string tail = log.ok() ? std::string(absl::StripAsciiWhitespace(*log)) : "";
  if (tail.size() > kLogTail) tail = "…" + tail.substr(tail.size() - kLogTail);
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1812",
       .what = StrCat("allocation ", record.job, " of Slurm ended before the cluster was up"),
       .why = tail.empty() ? "it wrote nothing" : StrCat("the end of its output: ", tail),
       .fix = StrCat("less ", path, "; then retry: jobctl cluster up ", record.name)});
}

// The queue may take hours; Ctrl-C leaves the allocation in it.
absl::StatusOr<Ready> AwaitAllocation(Session& session, const ClusterRecord& record) {
  std::string told;
  int unanswered = 0;
  int absent = 0;
  while (true) {
    const absl::StatusOr<std::string> text = common::ReadFile(RootOf(record) + "/ready", kReadyMax);
    if (text.ok()) {
      absl::StatusOr<Ready> ready = ParseReady(*text);
      if (ready.ok() && ready->job == record.job) return ready;
    }
    const absl::StatusOr<std::vector<Allocation>> allocations = AllocationsOf(record);
    // Slurm may be too busy to answer for a while.
    if (!allocations.ok()) {
      if (++unanswered > kUnansweredMax) return allocations.status();
      std::this_thread::sleep_for(kBetweenQuestions);
      continue;
    }
    unanswered = 0;
    const auto found = std::find_if(allocations->begin(), allocations->end(),
                                    [&](const Allocation& each) { return each.job == record.job; });
    if (found == allocations->end()) {
      if (++absent >= kAbsencesMin) return Ended(record);
      std::this_thread::sleep_for(kBetweenQuestions);
      continue;
    }
    absent = 0;
    const std::string now =
        StrCat("allocation ", record.job, " is ", absl::AsciiStrToLower(found->state),
               found->state == "PENDING" ? StrCat(": ", common::Printable(found->reason)) : "");
    if (now != told) session.Note(now);
    told = now;
    std::this_thread::sleep_for(kBetweenQuestions);
  }
}

absl::Status AwaitNodes(Session& session, const identity::Credentials& credentials,
                        const ClusterRecord& record, uint32_t count) {
  ASSIGN_OR_RETURN(
      const auto connection,
      Connection::Open(credentials.endpoint, session.settings().timeout_ms(), &credentials));
  const auto deadline = steady_clock::now() + kNodesWithin;
  uint32_t in = 0;
  while (in < count && steady_clock::now() < deadline) {
    ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection->ListNodes());
    in = static_cast<uint32_t>(std::count_if(
        nodes.nodes().begin(), nodes.nodes().end(),
        [](const v1::NodeView& node) { return node.record().connected() && !node.clearing(); }));
    if (in < count) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (in >= count) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1807",
       .what = StrCat("only ", in, " of ", count, " nodes of allocation ", record.job,
                      " registered within ", kNodesWithin.count(), " s"),
       .fix = StrCat("less ", RootOf(record), "/log/nodes; the nodes must reach ",
                     credentials.endpoint)});
}

// The authority stays from one allocation to the next, the address does not.
absl::StatusOr<identity::Credentials> SignIn(const Session& session, const ClusterRecord& record,
                                             const Ready& ready) {
  absl::StatusOr<identity::Credentials> known =
      identity::LoadCredentials(CredentialsPath(session.settings().file(), record.name));
  if (known.ok()) {
    known->http = ready.https;
    absl::StatusOr<identity::Credentials> renewed =
        identity::Renew(*known, common::SystemClock().Read().wall_ms);
    if (renewed.ok()) return renewed;
  }
  absl::StatusOr<identity::Credentials> credentials =
      identity::Enroll({.address = ready.https,
                        .token = ready.token,
                        .node = "",
                        .within = std::chrono::milliseconds(session.settings().timeout_ms())});
  if (credentials.ok()) return credentials;
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1806",
       .what = StrCat("the coordinator runs in allocation ", record.job,
                      ", but this machine cannot sign in to it at ", ready.https),
       .why = common::ProblemOf(credentials.status()).what,
       .fix = "run jobctl where the nodes can be reached"});
}

// Removes the directory and the record, and the directories above if they are empty and ours.
absl::Status Forget(Session& session, const ClusterRecord& record) {
  const std::string root = RootOf(record);
  if (const auto id = common::ReadFile(root + "/id", 64); id.ok() && *id == record.id) {
    RETURN_IF_ERROR(common::RemoveTree(root));
    std::error_code ignored;
    std::filesystem::remove(record.directory, ignored);
    const std::filesystem::path above = std::filesystem::path(record.directory).parent_path();
    if (above.filename() == ".muster") std::filesystem::remove(above, ignored);
  }
  return RemoveRecord(session.settings().file(), record.name);
}

// An allocation that has ended meanwhile counts as cancelled.
absl::Status Cancel(const ClusterRecord& record, const Allocation& allocation,
                    std::vector<std::string> flags) {
  flags.insert(flags.begin(), "scancel");
  flags.push_back(allocation.job);
  const absl::Status done = AskSlurm(std::move(flags)).status();
  if (done.ok()) return done;
  ASSIGN_OR_RETURN(const std::vector<Allocation> left, AllocationsOf(record));
  const bool is_there = std::any_of(left.begin(), left.end(), [&](const Allocation& each) {
    return each.job == allocation.job && IsToCome(each);
  });
  return is_there ? done : absl::OkStatus();
}

}  // namespace

absl::Status BringUpOnSlurm(Session& session, SlurmUp up) {
  ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Read());
  RETURN_IF_ERROR(AllocationsOf(up.record).status());  // before anything is written
  const bool is_new = !common::Exists(RecordPath(file, up.record.name));
  RETURN_IF_ERROR(is_new ? CreateRecord(file, up.record) : SaveRecord(file, up.record));
  const absl::Status made = MakeRoot(up);
  absl::StatusOr<std::string> job = made.ok() ? Submit(session, up.record) : made;
  // sbatch may have failed after submitting; such an allocation would then start without its files.
  if (!job.ok() && is_new) TakeDownOnSlurm(session, up.record).IgnoreError();
  RETURN_IF_ERROR(job.status());
  up.record.job = *std::move(job);
  RETURN_IF_ERROR(SaveRecord(file, up.record));
  ASSIGN_OR_RETURN(const Ready ready, AwaitAllocation(session, up.record));
  ASSIGN_OR_RETURN(const identity::Credentials credentials, SignIn(session, up.record, ready));
  session.Note(StrCat("✓ coordinator at ", credentials.endpoint));
  RETURN_IF_ERROR(AwaitNodes(session, credentials, up.record, ready.nodes));
  return SelectContext(up.record.name, credentials);
}

absl::Status TakeDownOnSlurm(Session& session, const ClusterRecord& record) {
  const auto deadline = steady_clock::now() + kEndWithin;
  const auto forced_from = steady_clock::now() + kOrderlyWithin;
  std::set<std::string> told, cancelled;
  int absent = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<Allocation> allocations, AllocationsOf(record));
    absent = allocations.empty() ? absent + 1 : 0;
    if (absent >= kAbsencesMin) break;
    // An allocation that resubmits itself may add another one.
    for (const Allocation& each : allocations) {
      // Its script stops the nodes in order, and leaves nothing on them.
      if (each.state == "RUNNING" && steady_clock::now() < forced_from) {
        if (!told.insert(each.job).second) continue;
        RETURN_IF_ERROR(Cancel(record, each, {"--batch", "--signal=USR1"}));
        session.Note(StrCat("allocation ", each.job, " is asked to stop"));
      } else if (each.state != "COMPLETING" && cancelled.insert(each.job).second) {
        RETURN_IF_ERROR(Cancel(record, each, {}));
        session.Note(StrCat("allocation ", each.job, " is cancelled"));
      }
    }
    if (!allocations.empty() && steady_clock::now() > deadline) {
      return common::MakeProblem(absl::StatusCode::kDeadlineExceeded,
                                 {.code = "JC1808",
                                  .what = StrCat("allocation ", allocations.front().job,
                                                 " was cancelled and does not end"),
                                  .fix = StrCat("scontrol show job ", allocations.front().job)});
    }
    std::this_thread::sleep_for(kBetweenAnswers);
  }
  return Forget(session, record);
}

}  // namespace muster::client::cluster
