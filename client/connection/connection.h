// The only way to the coordinator: JobService without gRPC's types. Blocking calls; any thread,
// several at once. Errors are the coordinator's own ("[JC1201] …"), or JC1301, JC1302, JC1307, JC1630
// from this room.
//
// Where coordinators replace each other, a call that reaches one that stands by is made again at the one
// that leads. A call that changes nothing or has an idempotency key is also made again, once, if the
// coordinator went away before it answered. A stream that breaks later returns UNAVAILABLE; the next
// call looks for the one that leads.
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
  // How long to wait for a coordinator that leads while others stand by. The next one leads within
  // about six seconds.
  static constexpr int64_t kPatienceMs = 15'000;

  // Checks version and protocol with GetServer. `endpoints` is "unix:/path", or "HOST:PORT" of each
  // coordinator that may lead, separated by commas (addresses.h); the one that leads need not be
  // among them. `credentials`: null for a connection that is not encrypted.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(
      const std::string& endpoints, int64_t timeout_ms,
      const identity::Credentials* credentials = nullptr, int64_t patience_ms = kPatienceMs);
  // Likewise to the first coordinator that answers, leading or not. One that stands by answers
  // ListCoordinators; every other call fails there (JC1630).
  static absl::StatusOr<std::unique_ptr<Connection>> OpenToAny(
      const std::string& endpoints, int64_t timeout_ms,
      const identity::Credentials* credentials = nullptr);
  ~Connection();

  // What GetServer returned when the connection was opened, and the address that answered. Later
  // calls may reach another coordinator of the cluster.
  const v1::GetServerResponse& server() const;
  const std::string& endpoint() const;
  // Of all coordinators of the cluster, as far as known: the one that leads first.
  std::vector<std::string> addresses() const;

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
  // Who another coordinator of the cluster is, with the credentials of this connection. `address`: as
  // a coordinator has named it, so it must be HOST:PORT.
  absl::StatusOr<v1::GetServerResponse> AskAt(const std::string& address, int64_t limit_ms) const;
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
  static absl::StatusOr<std::unique_ptr<Connection>> Open(std::unique_ptr<Channel> channel,
                                                          const std::string& endpoints,
                                                          int64_t timeout_ms,
                                                          const identity::Credentials* credentials);
  std::unique_ptr<Channel> channel_;
};

}  // namespace muster::client
