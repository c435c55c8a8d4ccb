#include "client/doctor/rehearsal.h"

#include <unistd.h>
#include <climits>
#include <cstdlib>

#include <algorithm>
#include <chrono>

#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "client/connection/socket_trust.h"
#include "client/session/private_coordinator.h"
#include "client/session/session.h"
#include "client/session/spec_environment.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/error_codes.h"
#include "common/files/files.h"
#include "common/job/shape.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;
using std::chrono::steady_clock;

constexpr int64_t kCoordinatorLimitMs = 1500;
constexpr int64_t kJobLimitMs = 10'000;
constexpr int kEndLimitMs = 3'000;

std::string FixOf(const absl::Status& error) {
  const common::Problem problem = common::ProblemOf(error);
  if (!problem.fix.empty()) return problem.fix;
  const common::ErrorCode* row = common::FindErrorCode(problem.code);
  return row == nullptr ? "jobctl -v doctor" : std::string(row->fix);
}

void Fail(const absl::Status& error, std::string* trouble, std::string* fix) {
  *trouble = Sentence(error);
  *fix = FixOf(error);
}

absl::Status CheckTrust(const std::string& endpoint) {
  constexpr std::string_view kUnix = "unix:";
  return endpoint.starts_with(kUnix) ? CheckServerSocket(endpoint.substr(kUnix.size()))
                                     : absl::OkStatus();
}

// A directory that is removed with its content.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    // The path of a socket in it has to fit into 107 bytes.
    constexpr size_t kBaseBytesMax = 50;
    std::string base = Variable("TMPDIR");
    if (base.empty() || base.size() > kBaseBytesMax) base = "/tmp";
    std::string pattern = StrCat(base, "/muster-doctor-XXXXXX");
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
    if (path_.empty()) status_ = common::ErrnoStatus(StrCat("cannot create ", pattern));
  }
  ~TemporaryDirectory() {
    if (!path_.empty()) static_cast<void>(common::RemoveTree(path_));
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const absl::Status& status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  absl::Status status_;
};

absl::StatusOr<v1::SubmitRequest> TwoRanks(Session& session) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  if (length <= 0) return common::ErrnoStatus("cannot read /proc/self/exe");
  v1::SubmitRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  AddEnvironment(EnvironmentSent::kLeast, session, &spec);
  spec.set_name("doctor");
  spec.add_command(std::string(self, static_cast<size_t>(length)));
  spec.add_command("__all_reduce");
  spec.set_workdir("/");
  spec.set_grace_ms(1);
  spec.mutable_shape()->set_processes(2);
  spec.mutable_shape()->mutable_device()->set_kind(std::string(common::HostKind().name));
  RETURN_IF_ERROR(job::Complete(0, spec.mutable_shape()));
  return request;
}

absl::Status RunToItsEnd(Connection& connection, const v1::SubmitRequest& request) {
  ASSIGN_OR_RETURN(const v1::SubmitResponse submitted, connection.Submit(request));
  v1::WatchJobRequest watch;
  watch.set_job(submitted.name());
  v1::JobRecord record;
  const absl::Status watched =
      connection.WatchJob(watch, kJobLimitMs, [&](const v1::JobUpdate& update) {
        record = update.record();
        return !IsOver(record.state());
      });
  if (record.state() == v1::JOB_STATE_SUCCEEDED) return absl::OkStatus();
  if (IsOver(record.state())) {
    return absl::InternalError(StrCat("two ranks of a tiny job failed: ", record.reason()));
  }
  if (absl::IsDeadlineExceeded(watched)) {
    return absl::InternalError(StrCat("two ranks of a tiny job did not end within ",
                                      kJobLimitMs / 1000, " s: ", record.reason()));
  }
  return watched;
}

absl::Status RunPrivately(Session& session, const std::string& directory) {
  PrivateCoordinator coordinator(directory, directory);
  RETURN_IF_ERROR(coordinator.Ensure());
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(coordinator.endpoint(), session.settings().timeout_ms()));
  connection->Attend();
  coordinator.Watch(static_cast<int>(connection->server().pid()));
  absl::StatusOr<v1::SubmitRequest> request = TwoRanks(session);
  const absl::Status done = request.ok() ? RunToItsEnd(*connection, *request) : request.status();
  // A hanging process must not outlive the directory in which it runs.
  v1::SetLifetimeRequest stop;
  stop.set_stop(true);
  stop.set_cancel_jobs(true);
  static_cast<void>(connection->SetLifetime(stop));
  connection->CancelStreams();
  coordinator.WaitForEnd(kEndLimitMs);
  return done;
}

}  // namespace

ProgramFacts ReadPrograms() {
  ProgramFacts facts;
  for (const char* name :
       {"muster-coordinator", "muster-worker", "muster-shim", "muster-rendezvous"}) {
    const absl::StatusOr<std::string> found = FindProgram(name);
    if (!found.ok() && facts.trouble.empty()) facts.trouble = Sentence(found.status());
  }
  return facts;
}

CoordinatorFacts ReadCoordinator(Session& session) {
  CoordinatorFacts facts;
  facts.is_private = session.is_private();
  facts.endpoint =
      facts.is_private ? session.private_coordinator().endpoint() : session.settings().server();
  if (facts.is_private && !session.private_coordinator().Running()) return facts;
  absl::Status trusted = CheckTrust(facts.endpoint);
  if (trusted.ok()) {
    const absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::Open(
        facts.endpoint, std::min(session.settings().timeout_ms(), kCoordinatorLimitMs));
    if (connection.ok()) {
      facts.answers = true;
      facts.version = (*connection)->server().version();
      facts.protocol = (*connection)->server().protocol();
      return facts;
    }
    trusted = connection.status();
  }
  Fail(trusted, &facts.trouble, &facts.fix);
  return facts;
}

AllReduceFacts RehearseAllReduce(Session& session) {
  AllReduceFacts facts;
  const auto begin = steady_clock::now();
  const TemporaryDirectory directory;
  const absl::Status done =
      directory.status().ok() ? RunPrivately(session, directory.path()) : directory.status();
  facts.took_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin).count();
  facts.done = done.ok();
  if (!done.ok()) Fail(done, &facts.trouble, &facts.fix);
  return facts;
}

}  // namespace muster::client::doctor
