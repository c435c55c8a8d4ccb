#include <unistd.h>

#include <utility>

#include "common/base/version.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/periodic/lifetime.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

absl::Status PrivateOnly() {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1306",
       .what = "this is a cluster's coordinator, which clients do not start or stop",
       .fix = "stop it with its service manager, or choose the private context"});
}

void DescribeHeads(const Leading& leading, v1::GetServerResponse& response) {
  response.set_head(leading.name);
  for (const v1::HeadRecord& head : leading.view().heads) {
    response.add_heads(head.endpoint());
    if (head.name() == leading.name) response.set_leader(head.endpoint());
  }
}

}  // namespace

void GetServer(Jobs& jobs, Instance& instance, Process& process, const Caller&,
               const v1::GetServerRequest& request, Answer<v1::GetServerResponse> answer) {
  if (request.client_protocol() != 0) {
    const absl::Status judged =
        JudgeProtocol("jobctl", request.client_version(), request.client_protocol());
    if (!judged.ok()) return answer(judged);
  }
  jobs.loop.Ask(
      [&instance, &process, answer](const LoopView& view) {
        v1::GetServerResponse response;
        response.set_version(common::kVersion);
        response.set_protocol(common::kProtocol);
        response.set_limits_ranks(true);
        response.set_epoch(instance.epoch);
        response.set_is_private(instance.is_private);
        response.set_stays(instance.lifetime.Stays());
        response.set_data_dir(process.paths.Root());
        response.set_endpoint(instance.endpoint);
        response.set_http_address(instance.http_address);
        response.set_started_ms(instance.started_ms);
        response.set_pid(static_cast<uint32_t>(getpid()));
        response.set_live_jobs(static_cast<uint32_t>(view.state.jobs.size()));
        response.set_disk_bytes(instance.disk_bytes);
        response.set_disk_free_bytes(instance.disk_free_bytes);
        response.set_nodes(static_cast<uint32_t>(view.state.nodes.size()));
        if (instance.leading != nullptr) DescribeHeads(*instance.leading, response);
        return [answer, response] { answer(response); };
      },
      answer);
}
MUSTER_HANDLER(GetServer)

void SignIn(Instance& instance, const Caller& caller, const v1::SignInRequest& request,
            Answer<v1::SignInResponse> answer) {
  if (!instance.sign_in_link) {
    return answer(common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                      {.code = "JC1317",
                                       .what = "the coordinator does not serve HTTP",
                                       .fix = "start it with --http 127.0.0.1:7701"}));
  }
  absl::StatusOr<std::string> link = instance.sign_in_link(caller, request.path());
  if (!link.ok()) return answer(link.status());
  v1::SignInResponse response;
  response.set_link(*std::move(link));
  response.set_address(instance.http_address);
  answer(std::move(response));
}
MUSTER_HANDLER(SignIn)

void Attend(Instance& instance, const Caller&, const v1::AttendRequest&,
            std::shared_ptr<Sink<v1::AttendResponse>> sink) {
  if (!instance.is_private) return sink->Close(PrivateOnly());
  instance.lifetime.ClientCame();
  sink->Observe(nullptr, [&instance] { instance.lifetime.ClientLeft(); });
  sink->Write(v1::AttendResponse());
}
MUSTER_HANDLER(Attend)

void SetLifetime(Jobs& jobs, Instance& instance, const Caller& caller,
                 const v1::SetLifetimeRequest& request, Answer<v1::SetLifetimeResponse> answer) {
  if (!instance.is_private) return answer(PrivateOnly());
  jobs.loop.Ask(
      [&jobs, &instance, caller, request, answer](const LoopView& view) {
        CancelInput cancel{.caller = caller};
        for (const auto& [id, job] : view.state.jobs) cancel.jobs.push_back(id);
        return [&jobs, &instance, request, answer, cancel = std::move(cancel)] {
          v1::SetLifetimeResponse response;
          response.set_live_jobs(static_cast<uint32_t>(cancel.jobs.size()));
          response.set_pid(static_cast<uint32_t>(getpid()));
          if (!request.stop()) {
            instance.lifetime.SetStay(request.stay());
            return answer(response);
          }
          if (!cancel.jobs.empty() && !request.cancel_jobs()) {
            return answer(common::MakeProblem(
                absl::StatusCode::kFailedPrecondition,
                {.code = "JC1204",
                 .what = StrCat(cancel.jobs.size(), " jobs are not over yet"),
                 .fix = "wait for them, or cancel them with jobctl down --cancel-jobs"}));
          }
          if (!cancel.jobs.empty()) jobs.loop.Say(cancel);
          // Answer first: stopping closes this very connection.
          answer(response);
          instance.lifetime.StopWhenIdle();
        };
      },
      answer);
}
MUSTER_HANDLER(SetLifetime)

}  // namespace muster::coordinator
