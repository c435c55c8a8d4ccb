#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/revocation.h"
#include "coordinator/calls/warnings.h"
#include "coordinator/contexts/on_pool.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

// For inputs whose reply is a list of results, or one status for all.
void Change(Jobs& jobs, Input input, Answer<v1::BulkResponse> answer) {
  const absl::Status queued = jobs.loop.Submit(std::move(input), [answer](const Reply& reply) {
    if (!reply.status.ok()) return answer(reply.status);
    v1::BulkResponse response;
    for (const v1::BulkResult& result : reply.results) *response.add_results() = result;
    answer(std::move(response));
  });
  if (!queued.ok()) answer(queued);
}

bool AreAllDone(const v1::BulkResponse& response) {
  return std::all_of(response.results().begin(), response.results().end(),
                     [](const v1::BulkResult& result) { return result.status_code() == 0; });
}

}  // namespace

void ListNodes(Jobs& jobs, JobStores& stores, Access& access, Process& process, const Caller&,
               const v1::ListNodesRequest& request, Answer<v1::ListNodesResponse> answer) {
  v1::ListNodesResponse begun;
  for (const common::Problem& each : Warnings(stores, access, process))
    common::CopyDetail(common::MakeProblem(absl::StatusCode::kUnavailable, each),
                       begun.add_warnings());
  jobs.loop.Ask(
      [after = request.after(), begun = std::move(begun), answer](const LoopView& view) {
        v1::ListNodesResponse response = begun;
        response.set_alarm(ClusterAlarm(view.state));
        response.set_disk_warning(DiskWarning(view.state));
        const auto& nodes = view.state.nodes;
        size_t bytes = 0;
        for (auto node = nodes.upper_bound(after); node != nodes.end(); ++node) {
          v1::NodeView& shown = *response.add_nodes() = ViewNode(view.state, node->second);
          bytes += shown.ByteSizeLong();
          if (bytes <= common::kAnswerBytesMax || std::next(node) == nodes.end()) continue;
          response.set_more(true);
          break;
        }
        return [answer, response = std::move(response)] { answer(response); };
      },
      answer);
}
MUSTER_HANDLER(ListNodes)

void DrainNode(Jobs& jobs, const Caller& caller, const v1::DrainNodeRequest& request,
               Answer<v1::BulkResponse> answer) {
  DrainInput input{caller, request.node(), request.drain(), request.reason(), request.evict()};
  if (request.has_notice_ms()) input.notice_ms = request.notice_ms();
  Change(jobs, std::move(input), std::move(answer));
}
MUSTER_HANDLER(DrainNode)

void DeclareNodeDead(Jobs& jobs, const Caller& caller, const v1::DeclareNodeDeadRequest& request,
                     Answer<v1::BulkResponse> answer) {
  Change(jobs, DeclareDeadInput{caller, request.node(), request.reason()}, std::move(answer));
}
MUSTER_HANDLER(DeclareNodeDead)

void RemoveNode(Jobs& jobs, Access& access, Process& process, const Caller& caller,
                const v1::RemoveNodeRequest& request, Answer<v1::BulkResponse> answer) {
  const auto removed = [&access, &process, caller, node = request.node(),
                        answer = std::move(answer)](absl::StatusOr<v1::BulkResponse> response) {
    if (!response.ok() || !AreAllDone(*response)) return answer(std::move(response));
    // Otherwise the machine could come back under that name.
    AnswerOnPool<v1::BulkResponse>(
        process, answer,
        [&access, &process, caller, node,
         done = *std::move(response)]() -> absl::StatusOr<v1::BulkResponse> {
          RETURN_IF_ERROR(RevokeNode(access, process, caller, node));
          return done;
        });
  };
  Change(jobs, RemoveNodeInput{caller, request.node(), request.reason()}, removed);
}
MUSTER_HANDLER(RemoveNode)

}  // namespace muster::coordinator
