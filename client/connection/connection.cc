#include "client/connection/connection.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "client/connection/addresses.h"
#include "client/connection/connection_channel.h"
#include "client/connection/head_search.h"
#include "client/connection/line.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/problem.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {

absl::StatusOr<std::shared_ptr<const Line>> Connection::Channel::Leading() {
  std::shared_ptr<HeadSearch> looking;  // before the lock: its end waits for its threads
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return search == nullptr; });
  if (line != nullptr && !is_lost) return line;
  if (cancelled) return absl::CancelledError("the connection was closed");
  looking = std::make_shared<HeadSearch>(
      addresses,
      HeadSearch::Terms{.timeout_ms = timeout_ms,
                        .patience_ms = patience_ms,
                        .any = any,
                        .credentials = credentials.has_value() ? &*credentials : nullptr});
  search = looking;
  lock.unlock();
  absl::StatusOr<std::shared_ptr<const Line>> found = looking->Find();
  lock.lock();
  search = nullptr;
  changed.notify_all();
  if (!found.ok()) return found;
  line = *found;
  is_lost = false;
  if (line->endpoint.starts_with("unix:")) return found;
  // The one that leads first: most likely it still does when it is looked for again.
  const v1::GetServerResponse& server = line->server;
  addresses = MergeAddresses({line->endpoint}, addresses);
  addresses = MergeAddresses(std::move(addresses),
                             HostsAndPorts({server.heads().begin(), server.heads().end()}));
  return found;
}

absl::Status Connection::Channel::Make(bool may_repeat, const Try& attempt) {
  for (bool is_first = true;; is_first = false) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Line> to, Leading());
    Outcome outcome = attempt(*to);
    const std::string code = common::CodeOf(outcome.status);
    const bool stands_by = code == "JC1630";  // then it has done nothing
    std::unique_lock lock(mutex);
    // gRPC redials a coordinator that is alone.
    if (!stands_by && (code != "JC1301" || addresses.size() < 2)) return outcome.status;
    if (line == to) is_lost = true;
    if (!is_first || outcome.has_begun || cancelled) return outcome.status;
    if (!stands_by && (!may_repeat || outcome.was_late)) return outcome.status;
  }
}

Connection::Connection(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

Connection::~Connection() {
  CancelStreams();
  if (channel_->attend != nullptr) {
    v1::AttendResponse ignored;
    while (channel_->attend->Read(&ignored)) {
    }
    channel_->attend->Finish();
  }
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(
    const std::string& endpoints, int64_t timeout_ms, const identity::Credentials* credentials,
    int64_t patience_ms) {
  auto channel = std::make_unique<Channel>();
  channel->patience_ms = patience_ms;
  return Open(std::move(channel), endpoints, timeout_ms, credentials);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenToAny(
    const std::string& endpoints, int64_t timeout_ms, const identity::Credentials* credentials) {
  auto channel = std::make_unique<Channel>();
  channel->any = true;
  return Open(std::move(channel), endpoints, timeout_ms, credentials);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(
    std::unique_ptr<Channel> channel, const std::string& endpoints, int64_t timeout_ms,
    const identity::Credentials* credentials) {
  channel->timeout_ms = timeout_ms;
  if (credentials != nullptr) channel->credentials = *credentials;
  channel->addresses = MergeAddresses({}, SplitAddresses(endpoints));
  ASSIGN_OR_RETURN(channel->opened, channel->Leading());
  return std::unique_ptr<Connection>(new Connection(std::move(channel)));
}

const v1::GetServerResponse& Connection::server() const { return channel_->opened->server; }
const std::string& Connection::endpoint() const { return channel_->opened->endpoint; }

std::vector<std::string> Connection::addresses() const {
  std::lock_guard lock(channel_->mutex);
  return channel_->addresses;
}

absl::StatusOr<v1::GetServerResponse> Connection::GetServer() {
  v1::GetServerRequest request;
  request.set_client_protocol(common::kProtocol);
  request.set_client_version(common::kVersion);
  return GetServer(request);
}

absl::StatusOr<v1::GetServerResponse> Connection::AskAt(const std::string& address,
                                                        int64_t limit_ms) const {
  if (!IsHostAndPort(address)) return Unreachable(address, "that is not HOST:PORT");
  const auto& credentials = channel_->credentials;
  grpc::ClientContext context;
  return AskWho(*Dial(address, credentials.has_value() ? &*credentials : nullptr), limit_ms,
                &context);
}

void Connection::Attend() {
  if (channel_->attend != nullptr) return;
  channel_->attend_context = std::make_unique<grpc::ClientContext>();
  v1::AttendRequest request;
  request.set_pid(static_cast<uint32_t>(getpid()));
  channel_->attend = channel_->opened->stub->Attend(channel_->attend_context.get(), request);
}

void Connection::CancelStreams() {
  std::shared_ptr<HeadSearch> search;
  {
    std::lock_guard lock(channel_->mutex);
    channel_->cancelled = true;
    for (grpc::ClientContext* context : channel_->streams) context->TryCancel();
    if (channel_->attend_context != nullptr) channel_->attend_context->TryCancel();
    search = channel_->search;
  }
  if (search != nullptr) search->Cancel();
}

}  // namespace muster::client
