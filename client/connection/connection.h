// The only way to the coordinator: JobService without gRPC's types. Blocking calls; any thread,
// several at once. Errors are the coordinator's own ("[JC1201] …"), or JC1301, JC1302, JC1307 from
// this file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/calls.h"
#include "identity/credential_files.h"
#include "muster/v1/exec.pb.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class ExecCall;

class Connection {
 public:
  // Checks version and protocol with GetServer. `endpoint` is "unix:/path" or "HOST:PORT".
  // `credentials`: null for a connection that is not encrypted.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(
      const std::string& endpoint, int64_t timeout_ms,
      const identity::Credentials* credentials = nullptr);
  ~Connection();

  // What GetServer returned when the connection was opened.
  const v1::GetServerResponse& server() const;
  const std::string& endpoint() const;

  // One method for each call of JobService that has one answer, or a stream of messages, from its row
  // (common/calls.h). A call with several jobs is split into as many requests as needed. A list is one
  // page. `on_message` returns false to end the stream (then the result is OK). UNIMPLEMENTED: the
  // coordinator is older.
  template <typename Message>
  using OnMessage = std::function<bool(const Message&)>;
#define MUSTER_ONE(name, Request, Response, action, object, cost) \
  absl::StatusOr<v1::Response> name(const v1::Request& request);
#define MUSTER_STREAM(name, Request, Message, action, object, cost) \
  absl::Status name(const v1::Request& request, const OnMessage<v1::Message>& on_message);
#define MUSTER_BY_HAND(name, Request, Response, action, object, cost)
  MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_STREAM, MUSTER_BY_HAND, MUSTER_BY_HAND)
#undef MUSTER_ONE
#undef MUSTER_STREAM
#undef MUSTER_BY_HAND

  // The same calls in their usual forms. Asks this coordinator again:
  absl::StatusOr<v1::GetServerResponse> GetServer();
  absl::StatusOr<v1::GetJobResponse> GetJob(const std::string& job);
  absl::StatusOr<v1::WhyResponse> WhyJob(const std::string& job);
  absl::StatusOr<v1::Assessment> AssessJob(const std::string& job);
  absl::StatusOr<v1::MetricSummaries> SummarizeMetrics(const std::string& job);
  // All of them, page by page.
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  // All files of a checkpoint.
  absl::StatusOr<std::vector<v1::CheckpointFile>> ListCheckpointFiles(
      const v1::CheckpointReference& request);
  // `deadline_ms` 0: none. Otherwise DEADLINE_EXCEEDED once it passes.
  absl::Status WatchJob(const v1::WatchJobRequest& request, int64_t deadline_ms,
                        const OnMessage<v1::JobUpdate>& on_message);

  // `next` fills a chunk, or returns false after the last one; its error cancels the stream and is
  // returned. Sends no faster than the coordinator reads.
  using NextChunk = std::function<absl::StatusOr<bool>(v1::ObjectChunk*)>;
  absl::StatusOr<v1::PushObjectsResponse> PushObjects(const NextChunk& next);

  // Starts a command in a job. Read from the call how it starts and ends.
  std::unique_ptr<ExecCall> Exec(const v1::ExecStart& start);

  // Private coordinator: keeps it running until Close or the end of the process.
  void Attend();
  // Ends every open stream of this connection, from any thread; they return CANCELLED.
  void CancelStreams();

 private:
  struct Channel;
  explicit Connection(std::unique_ptr<Channel> channel);
  std::unique_ptr<Channel> channel_;
};

}  // namespace muster::client
