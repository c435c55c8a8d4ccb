#include "coordinator/etcd/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/etcd/refusals.h"
#include "etcd/rpc.grpc.pb.h"

namespace muster::coordinator::etcd {
namespace {

using common::StrCat;

// An answer has at most one value of the log and little besides, or a page of small keys.
constexpr int kAnswerBytesMost = 64 << 20;
constexpr int kPauseBetweenRoundsMs = 50;

struct Member {
  std::string endpoint;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<etcdserverpb::KV::Stub> kv;
  std::unique_ptr<etcdserverpb::Lease::Stub> lease;
  std::unique_ptr<etcdserverpb::Auth::Stub> auth;
};

// NOT_FOUND would be an answer of etcd's.
absl::StatusOr<std::string> ReadOfFlag(std::string_view flag, const std::string& path,
                                       size_t bytes_most) {
  absl::StatusOr<std::string> text = common::ReadFile(path, bytes_most);
  if (text.ok()) return text;
  return absl::FailedPreconditionError(
      StrCat(flag, ": ", common::FromAbsl(text.status().message())));
}

absl::StatusOr<std::string> ReadPem(std::string_view flag, const std::string& path) {
  if (path.empty()) return std::string();
  return ReadOfFlag(flag, path, 1 << 20);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const Access& access) {
  if (!access.address.is_tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("--etcd-ca", access.authority_file));
  ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem("--etcd-cert", access.certificate_file));
  ASSIGN_OR_RETURN(options.pem_private_key, ReadPem("--etcd-key", access.key_file));
  return grpc::SslCredentials(options);
}

absl::StatusOr<std::string> PasswordOf(const Access& access) {
  if (access.user.empty()) return std::string();
  ASSIGN_OR_RETURN(const std::string text,
                   ReadOfFlag("--etcd-password-file", access.password_file, 1 << 12));
  return text.substr(0, text.find('\n'));
}

// gRPC sees that a connection is made only while a thread waits in it: where no server runs, one that sleeps between
// calls would never reach a member that is back.
void PauseBetweenRounds(Member& member) {
  const auto end =
      std::chrono::system_clock::now() + std::chrono::milliseconds(kPauseBetweenRoundsMs);
  member.channel->WaitForConnected(end);
  std::this_thread::sleep_until(end);
}

}  // namespace

struct Client::Parts {
  Access access;
  std::vector<Member> members;
  std::atomic<size_t> current = 0;  // the member that answered last
  std::mutex mutex;                 // guards what follows
  std::string token;                // of etcd's authentication

  // Calls `call` until a member answers.
  absl::Status Try(int64_t within_ms,
                   const std::function<grpc::Status(Member&, grpc::ClientContext&)>& call);
  // The same for a call that has an answer.
  template <typename Response, typename Call>
  absl::StatusOr<Response> Ask(int64_t within_ms, const Call& call) {
    Response response;
    RETURN_IF_ERROR(Try(within_ms, [&](Member& member, grpc::ClientContext& context) {
      return call(member, context, &response);
    }));
    return response;
  }
  // Gets a token; reads the password, which may have been changed.
  absl::Status Authenticate(Member& member);
};

absl::Status Client::Parts::Authenticate(Member& member) {
  ASSIGN_OR_RETURN(const std::string password, PasswordOf(access));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(kMemberWithinMs));
  etcdserverpb::AuthenticateRequest request;
  request.set_name(access.user);
  request.set_password(password);
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status done = member.auth->Authenticate(&context, request, &response);
  if (!done.ok()) return StatusOf(access, done, member.endpoint);
  std::lock_guard lock(mutex);
  token = response.token();
  return absl::OkStatus();
}

absl::Status Client::Parts::Try(
    int64_t within_ms, const std::function<grpc::Status(Member&, grpc::ClientContext&)>& call) {
  const int64_t end = common::MonotonicMs() + within_ms;
  absl::Status last = absl::DeadlineExceededError("etcd: no time was left to ask");
  bool was_refused = false;
  for (size_t tries = 1;; ++tries) {
    const int64_t left = end - common::MonotonicMs();
    if (left <= 0) return last;
    const size_t index = current.load() % members.size();
    Member& member = members[index];
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(std::min(left, kMemberWithinMs)));
    bool had_token = false;
    {
      std::lock_guard lock(mutex);
      had_token = !token.empty();
      if (had_token) context.AddMetadata("token", token);
    }
    const grpc::Status done = call(member, context);
    if (done.ok()) return absl::OkStatus();
    last = StatusOf(access, done, member.endpoint);
    if (NeedsToken(done, had_token) && !access.user.empty() && !was_refused) {
      was_refused = true;
      last = Authenticate(member);
      if (last.ok()) continue;
      if (!absl::IsUnavailable(last) && !absl::IsDeadlineExceeded(last)) return last;
    } else if (!MayPass(done)) {
      return last;
    }
    was_refused = false;  // the next one may ask for a new token, too
    size_t expected = index;
    current.compare_exchange_strong(expected, (index + 1) % members.size());
    if (tries % members.size() == 0) PauseBetweenRounds(member);
  }
}

Client::Client(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Make(const Access& access) {
  auto parts = std::make_unique<Parts>();
  parts->access = access;
  RETURN_IF_ERROR(PasswordOf(access).status());  // a file that cannot be read is found at the start
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                   CredentialsOf(access));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kAnswerBytesMost);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  for (const std::string& endpoint : access.address.endpoints) {
    const auto channel = grpc::CreateCustomChannel(endpoint, credentials, arguments);
    parts->members.push_back({.endpoint = endpoint,
                              .channel = channel,
                              .kv = etcdserverpb::KV::NewStub(channel),
                              .lease = etcdserverpb::Lease::NewStub(channel),
                              .auth = etcdserverpb::Auth::NewStub(channel)});
  }
  return std::unique_ptr<Client>(new Client(std::move(parts)));
}

absl::StatusOr<etcdserverpb::TxnResponse> Client::Txn(const etcdserverpb::TxnRequest& request,
                                                      int64_t within_ms) {
  return parts_->Ask<etcdserverpb::TxnResponse>(
      within_ms, [&](Member& member, grpc::ClientContext& context, auto* response) {
        return member.kv->Txn(&context, request, response);
      });
}

absl::StatusOr<etcdserverpb::RangeResponse> Client::Range(const etcdserverpb::RangeRequest& request,
                                                          int64_t within_ms) {
  return parts_->Ask<etcdserverpb::RangeResponse>(
      within_ms, [&](Member& member, grpc::ClientContext& context, auto* response) {
        return member.kv->Range(&context, request, response);
      });
}

absl::Status Client::Compact(int64_t revision, int64_t within_ms) {
  etcdserverpb::CompactionRequest request;
  request.set_revision(revision);
  return parts_
      ->Ask<etcdserverpb::CompactionResponse>(
          within_ms,
          [&](Member& member, grpc::ClientContext& context, auto* response) {
            return member.kv->Compact(&context, request, response);
          })
      .status();
}

absl::StatusOr<Client::Lease> Client::Grant(int64_t ttl_ms, int64_t within_ms) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl((ttl_ms + 999) / 1'000);
  ASSIGN_OR_RETURN(const auto response,
                   parts_->Ask<etcdserverpb::LeaseGrantResponse>(
                       within_ms, [&](Member& member, grpc::ClientContext& context, auto* answer) {
                         return member.lease->LeaseGrant(&context, request, answer);
                       }));
  if (!response.error().empty()) return absl::InternalError(StrCat("etcd: ", response.error()));
  return Lease{.id = response.id(), .ttl_ms = response.ttl() * 1'000};
}

absl::StatusOr<int64_t> Client::KeepAlive(int64_t lease, int64_t within_ms) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(parts_->Try(within_ms, [&](Member& member, grpc::ClientContext& context) {
    const auto stream = member.lease->LeaseKeepAlive(&context);
    const bool is_answered = stream->Write(request) && stream->Read(&response);
    context.TryCancel();
    const grpc::Status ended = stream->Finish();
    if (is_answered) return grpc::Status::OK;
    return ended.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended") : ended;
  }));
  if (response.ttl() <= 0) return absl::NotFoundError("etcd: the lease is over");
  return response.ttl() * 1'000;
}

absl::Status Client::Revoke(int64_t lease, int64_t within_ms) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  return parts_
      ->Ask<etcdserverpb::LeaseRevokeResponse>(
          within_ms,
          [&](Member& member, grpc::ClientContext& context, auto* response) {
            return member.lease->LeaseRevoke(&context, request, response);
          })
      .status();
}

std::string Client::Key(const std::string& rest) const {
  return StrCat("/", parts_->access.address.name, "/", rest);
}

const Address& Client::address() const { return parts_->access.address; }

std::string EndOfPrefix(std::string prefix) {
  // Our prefixes end with '/', so the last byte can always be raised.
  ++prefix.back();
  return prefix;
}

}  // namespace muster::coordinator::etcd
