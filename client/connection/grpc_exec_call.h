// ExecCall over gRPC. Only connection.cc includes this file.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "client/connection/exec_call.h"
#include "muster/v1/exec.grpc.pb.h"

namespace muster::client {

class GrpcExecCall final : public ExecCall {
 public:
  using Convert = std::function<absl::Status(const grpc::Status&)>;
  GrpcExecCall(const std::shared_ptr<grpc::Channel>& channel, Convert convert)
      : convert_(std::move(convert)), stream_(v1::ExecService::NewStub(channel)->Exec(&context_)) {}
  ~GrpcExecCall() override {
    Cancel();
    if (!is_finished_) stream_->Finish();
  }

  bool Write(const v1::ExecInput& message) override {
    std::lock_guard lock(write_mutex_);
    return stream_->Write(message);
  }
  bool Read(v1::ExecOutput* message) override { return stream_->Read(message); }
  absl::Status Finish() override {
    is_finished_ = true;
    return convert_(stream_->Finish());
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  const Convert convert_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::ExecInput, v1::ExecOutput>> stream_;
  std::mutex write_mutex_;  // one write at a time
  bool is_finished_ = false;
};

}  // namespace muster::client
