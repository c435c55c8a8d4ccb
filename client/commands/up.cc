// jobctl up and down: keep the private coordinator running, or stop it.
#include <chrono>
#include <thread>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/private_coordinator.h"
#include "client/session/session.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;
using std::chrono::steady_clock;

constexpr auto kWorkerLimit = std::chrono::seconds(10);
// Ranks get their grace, then the daemons exit.
constexpr int kDownLimitMs = 120'000;

absl::Status OnlyPrivate(const Session& session, std::string_view command) {
  if (session.is_private()) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1306",
       .what = StrCat("`jobctl ", command,
                      "` is for this machine's private coordinator, but the context is ",
                      session.settings().server()),
       .fix = StrCat("jobctl --context private ", command)});
}

std::string Inventory(const v1::ListNodesResponse& nodes) {
  std::string devices;
  for (const v1::NodeView& node : nodes.nodes()) {
    for (const v1::DeviceUse& use : node.uses()) {
      const bool unlimited =
          common::IsHostKind(use.kind()) && node.record().facts().oversubscribe_cpu();
      common::StrAppend(&devices, devices.empty() ? "" : ", ", use.total(), " ", use.kind(),
                        unlimited ? " (shared)" : "");
    }
  }
  return StrCat(nodes.nodes_size(), nodes.nodes_size() == 1 ? " worker" : " workers",
                devices.empty() ? "" : StrCat(", ", devices));
}

absl::StatusOr<int> Up(Session& session, const Arguments&) {
  RETURN_IF_ERROR(OnlyPrivate(session, "up"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  v1::SetLifetimeRequest request;
  request.set_stay(true);
  RETURN_IF_ERROR(connection->SetLifetime(request).status());
  const auto deadline = steady_clock::now() + kWorkerLimit;
  ASSIGN_OR_RETURN(v1::ListNodesResponse nodes, connection->ListNodes());
  const auto connected = [&] {
    return nodes.nodes_size() > 0 && nodes.nodes(0).record().connected();
  };
  while (!connected() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSIGN_OR_RETURN(nodes, connection->ListNodes());
  }
  if (!connected()) {
    return common::MakeProblem(
        absl::StatusCode::kUnavailable,
        {.code = "JC1303",
         .what = "the coordinator is up, but its worker did not register within 10 s",
         .fix = StrCat("less ", session.private_coordinator().data_dir(), "/worker/worker.log")});
  }
  const std::string& http = connection->server().http_address();
  session.Print(StrCat("✓ coordinator ", connection->endpoint(), http.empty() ? "" : " · ", http,
                       " · ", Inventory(nodes), "\n"));
  if (!http.empty()) session.Note("a browser signs in with: jobctl ui");
  session.Note("it keeps running until: jobctl down");
  return kExitOk;
}

constexpr Flag kDownFlags[] = {
    {"cancel-jobs", 0, "", "cancel jobs that are still running or queued"},
};

absl::StatusOr<int> Down(Session& session, const Arguments& arguments) {
  RETURN_IF_ERROR(OnlyPrivate(session, "down"));
  if (!session.private_coordinator().Running()) {
    session.Print("✓ nothing was running\n");
    return kExitOk;
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  const uint32_t live = connection->server().live_jobs();
  if (live > 0 && !arguments.Has("cancel-jobs")) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1204",
         .what = StrCat(live, live == 1 ? " job is" : " jobs are", " not over"),
         .fix = "jobctl ls; then wait for them, or jobctl down --cancel-jobs"});
  }
  v1::SetLifetimeRequest request;
  request.set_stop(true);
  request.set_cancel_jobs(arguments.Has("cancel-jobs"));
  RETURN_IF_ERROR(connection->SetLifetime(request).status());
  connection->CancelStreams();
  session.Disconnect();
  if (!session.private_coordinator().WaitForEnd(kDownLimitMs)) {
    return common::MakeProblem(absl::StatusCode::kDeadlineExceeded,
                               {.code = "JC1303",
                                .what = "the private coordinator did not exit in time",
                                .fix = StrCat("less ", session.private_coordinator().log_path())});
  }
  session.Print("✓ stopped; the records are kept: jobctl ls -a\n");
  return kExitOk;
}

}  // namespace

const Command kUpCommand = {
    .name = "up",
    .place = 620,
    .summary = "start the private coordinator and worker and keep them running",
    .examples = "jobctl up\tuntil `jobctl down`",
    .run = Up};
const Command kDownCommand = {
    .name = "down",
    .place = 630,
    .summary = "stop the private coordinator and worker; the records are kept",
    .flags = kDownFlags,
    .examples =
        "jobctl down\twhen no job is running\n"
        "jobctl down --cancel-jobs\tand cancel all jobs",
    .run = Down};

}  // namespace muster::client
