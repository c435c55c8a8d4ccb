// One of several coordinators that replace each other, as small as tests of the links need: it leads, stands by, or
// hangs, and may be dead. On a unix socket.
#pragma once

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/problem.h"
#include "common/status_wire.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::worker {

// JC1630, as a coordinator that does not lead ends every call.
inline grpc::Status StandsBy() {
  common::WireStatus wire = common::ToWire(common::MakeProblem(
      absl::StatusCode::kUnavailable, {.code = "JC1630", .what = "this coordinator stands by"}));
  return {grpc::StatusCode::UNAVAILABLE, wire.message, wire.details};
}

class FakeHead final : public v1::WorkerService::Service {
 public:
  enum class Role { kLeads, kStandsBy, kHangs };

  explicit FakeHead(std::string socket, Role role = Role::kStandsBy)
      : socket_(std::move(socket)), role_(role) {}
  ~FakeHead() override { Die(); }

  std::string Address() const { return "unix:" + socket_; }
  void Start() {
    unlink(socket_.c_str());
    grpc::ServerBuilder builder;
    builder.AddListeningPort(Address(), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  // Connections break.
  void Die() {
    Play(Role::kStandsBy);
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  // Takes effect at the next call; a call that hangs ends when it stops hanging.
  void Play(Role role) {
    std::lock_guard lock(mutex_);
    role_ = role;
    changed_.notify_all();
  }
  template <typename Read>
  auto Get(Read read) {
    std::lock_guard lock(mutex_);
    return read(*this);
  }
  bool Wait(const std::function<bool()>& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), done);
  }

  // Under Wait's lock.
  int asked = 0;
  int registered = 0;
  int log_streams = 0;
  std::string log;
  int blob_calls = 0;

  grpc::Status Connect(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    if (const auto refused = Admit(context, &FakeHead::asked)) return *refused;
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      if (!message.has_register_()) continue;
      v1::CoordinatorMessage answer;
      answer.mutable_registered()->set_heartbeat_ms(200);
      stream->Write(answer);
      Count(&FakeHead::registered);
    }
    return grpc::Status::OK;
  }
  grpc::Status UploadLogs(grpc::ServerContext* context,
                          grpc::ServerReaderWriter<v1::LogAck, v1::LogChunk>* stream) override {
    if (const auto refused = Admit(context, &FakeHead::log_streams)) return *refused;
    v1::LogChunk chunk;
    while (stream->Read(&chunk)) {
      std::lock_guard lock(mutex_);
      log += chunk.data();
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }
  grpc::Status BeginUpload(grpc::ServerContext* context, const v1::BeginUploadRequest*,
                           v1::BeginUploadResponse* response) override {
    if (const auto refused = Admit(context, &FakeHead::blob_calls)) return *refused;
    response->set_have(true);
    return grpc::Status::OK;
  }

 private:
  void Count(int FakeHead::*counter) {
    std::lock_guard lock(mutex_);
    ++(this->*counter);
    changed_.notify_all();
  }
  // Nothing if the call is to be served. Hangs as long as that is the role and the caller waits.
  std::optional<grpc::Status> Admit(grpc::ServerContext* context, int FakeHead::*counter) {
    Count(counter);
    std::unique_lock lock(mutex_);
    while (role_ == Role::kHangs && !context->IsCancelled())
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    if (role_ == Role::kLeads) return std::nullopt;
    return StandsBy();
  }

  const std::string socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Role role_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace muster::worker
