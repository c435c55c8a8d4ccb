// The calls of JobService, one method for each row. Part of Connection (connection.h).
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "client/connection/connection.h"
#include "client/connection/connection_channel.h"
#include "client/connection/grpc_exec_call.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

// The least time limit for an answer; a longer limit of the user's takes precedence. A durable call may
// wait for a slow disk, so it gets more time than a probe. Hashing a checkpoint of many GB takes a while.
constexpr int64_t LimitMs(std::string_view call) {
  if (call == "GetServer") return 0;
  return call == "VerifyCheckpoint" ? 3'600'000 : 60'000;
}

// Each job has its own result, so the request may be split.
template <typename Request, typename Answer>
concept IsBulk = std::is_same_v<Answer, absl::StatusOr<v1::BulkResponse>> &&
    requires(const Request& request) {
  request.jobs_size();
};

// send(request), or several requests with some of its jobs each, as each answer must fit into a message.
template <typename Request, typename Send>
auto InBatches(const Request& request, const Send& send) -> decltype(send(request)) {
  if constexpr (!IsBulk<Request, decltype(send(request))>) {
    return send(request);
  } else {
    constexpr int kBatch = 1'000;
    v1::BulkResponse all;
    for (int at = 0; at == 0 || at < request.jobs_size(); at += kBatch) {
      Request some = request;
      some.clear_jobs();
      for (int i = at; i < std::min(at + kBatch, request.jobs_size()); ++i) {
        some.add_jobs(request.jobs(i));
      }
      ASSIGN_OR_RETURN(const v1::BulkResponse response, send(some));
      all.MergeFrom(response);
    }
    return all;
  }
}

// Whether a call whose answer was lost may be made again: it changes nothing, or the coordinator knows
// it by its key.
template <typename Request>
bool MayRepeat(common::Action action, const Request& request) {
  if constexpr (requires { request.idempotency_key(); }) {
    if (!request.idempotency_key().empty()) return true;
  }
  return action == common::Action::kRead;
}

// Checks that the answer matches the request.
template <typename Request, typename Response>
absl::Status CheckAnswer(const Request&, const Response&, const v1::GetServerResponse&) {
  return absl::OkStatus();
}
absl::Status CheckAnswer(const v1::ListJobsRequest& request, const v1::ListJobsResponse& response,
                         const v1::GetServerResponse& server) {
  if (request.labels().empty() || response.labels_met()) return absl::OkStatus();
  // All jobs instead of a few: the user may be about to cancel them.
  return common::MakeProblem(absl::StatusCode::kUnimplemented,
                             {.code = "JC1302",
                              .what = common::StrCat("the coordinator (version ", server.version(),
                                                     ") cannot select jobs by labels"),
                              .fix = "upgrade the coordinator"});
}

v1::JobReference ReferenceTo(const std::string& job) {
  v1::JobReference reference;
  reference.set_job(job);
  return reference;
}

}  // namespace

#define MUSTER_ONE(name, Request, Response, action, object, cost)                             \
  absl::StatusOr<v1::Response> Connection::name(const v1::Request& request) {                 \
    const int64_t limit_ms = std::max(LimitMs(#name), channel_->timeout_ms);                  \
    absl::StatusOr<v1::Response> response = InBatches(request, [&](const v1::Request& some) { \
      return channel_->Unary(&v1::JobService::Stub::name, some, limit_ms,                     \
                             MayRepeat(common::Action::action, some));                        \
    });                                                                                       \
    if (response.ok()) RETURN_IF_ERROR(CheckAnswer(request, *response, server()));            \
    return response;                                                                          \
  }
#define MUSTER_STREAM(name, Request, Message, action, object, cost)         \
  absl::Status Connection::name(const v1::Request& request,                 \
                                const OnMessage<v1::Message>& on_message) { \
    return channel_->Stream<grpc::ClientReader<v1::Message>, v1::Message>(  \
        [&](v1::JobService::Stub& stub, grpc::ClientContext* context) {     \
          return stub.name(context, request);                               \
        },                                                                  \
        on_message, MayRepeat(common::Action::action, request));            \
  }
#define MUSTER_BY_HAND(name, Request, Response, action, object, cost)
MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_STREAM, MUSTER_BY_HAND, MUSTER_BY_HAND)
#undef MUSTER_ONE
#undef MUSTER_STREAM
#undef MUSTER_BY_HAND

absl::StatusOr<v1::GetJobResponse> Connection::GetJob(const std::string& job) {
  return GetJob(ReferenceTo(job));
}
absl::StatusOr<v1::WhyResponse> Connection::WhyJob(const std::string& job) {
  return WhyJob(ReferenceTo(job));
}
absl::StatusOr<v1::Assessment> Connection::AssessJob(const std::string& job) {
  return AssessJob(ReferenceTo(job));
}
absl::StatusOr<v1::MetricSummaries> Connection::SummarizeMetrics(const std::string& job) {
  return SummarizeMetrics(ReferenceTo(job));
}

absl::StatusOr<v1::ListNodesResponse> Connection::ListNodes() {
  v1::ListNodesRequest request;
  v1::ListNodesResponse all;
  while (true) {
    ASSIGN_OR_RETURN(v1::ListNodesResponse page, ListNodes(request));
    all.MergeFrom(page);
    all.set_more(false);
    if (!page.more() || page.nodes().empty()) return all;
    request.set_after(page.nodes().rbegin()->record().facts().name());
  }
}

absl::StatusOr<std::vector<v1::CheckpointFile>> Connection::ListCheckpointFiles(
    const v1::CheckpointReference& request) {
  std::vector<v1::CheckpointFile> files;
  const absl::Status status = ListCheckpointFiles(request, [&](const v1::CheckpointFiles& piece) {
    files.insert(files.end(), piece.files().begin(), piece.files().end());
    return files.size() <= common::kCheckpointFilesMax;
  });
  RETURN_IF_ERROR(status);
  if (files.size() > common::kCheckpointFilesMax) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1504",
         .what = common::StrCat("the coordinator lists more than ", common::kCheckpointFilesMax,
                                " files of one checkpoint"),
         .fix = "do not use this checkpoint"});
  }
  return files;
}

absl::Status Connection::WatchJob(const v1::WatchJobRequest& request, int64_t deadline_ms,
                                  const OnMessage<v1::JobUpdate>& on_message) {
  return channel_->Stream<grpc::ClientReader<v1::JobUpdate>, v1::JobUpdate>(
      [&](v1::JobService::Stub& stub, grpc::ClientContext* context) {
        return stub.WatchJob(context, request);
      },
      on_message, /*may_repeat=*/true, deadline_ms);
}

std::unique_ptr<ExecCall> Connection::Exec(const v1::ExecStart& start) {
  // A command is never started twice. The call fails if none leads.
  const absl::StatusOr<std::shared_ptr<const Line>> leading = channel_->Leading();
  const std::shared_ptr<const Line> to = leading.ok() ? *leading : channel_->Last();
  auto call = std::make_unique<GrpcExecCall>(
      to->channel, [to](const grpc::Status& status) { return to->Convert(status); });
  v1::ExecInput first;
  *first.mutable_start() = start;
  call->Write(first);
  return call;
}

absl::StatusOr<v1::PushObjectsResponse> Connection::PushObjects(const NextChunk& next) {
  // Not repeated here, as `next` gives each chunk once.
  ASSIGN_OR_RETURN(const std::shared_ptr<const Line> to, channel_->Leading());
  v1::PushObjectsResponse response;
  absl::Status problem;
  const grpc::Status status = channel_->WithContext([&](grpc::ClientContext* context) {
    const std::unique_ptr<grpc::ClientWriter<v1::ObjectChunk>> writer =
        to->stub->PushObjects(context, &response);
    v1::ObjectChunk chunk;
    while (true) {
      chunk.Clear();
      const absl::StatusOr<bool> more = next(&chunk);
      if (!more.ok()) {
        problem = more.status();
        context->TryCancel();
        break;
      }
      if (!*more) {
        writer->WritesDone();
        break;
      }
      if (!writer->Write(chunk)) break;  // Finish tells why
    }
    return writer->Finish();
  });
  RETURN_IF_ERROR(problem);
  RETURN_IF_ERROR(to->Convert(status));
  return response;
}

}  // namespace muster::client
