#include "worker/links/channel.h"

#include <gtest/gtest.h>

#include <future>

#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::worker {
namespace {

// A call that owns its channel until it ends, as a stream of a link may.
struct LastCall {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::WorkerService::Stub> stub;
  grpc::ClientContext context;
  v1::BeginUploadRequest request;
  v1::BeginUploadResponse response;
  std::promise<void> over;
};

TEST(ChannelTest, ACallbackMayLetTheLastChannelGo) {
  for (int i = 0; i < 20; ++i) {
    auto* call = new LastCall;
    call->channel = MakeChannel({.endpoint = "unix:/nowhere/at/all", .credentials = nullptr},
                                /*own_connection=*/true);
    call->stub = v1::WorkerService::NewStub(call->channel);
    std::future<void> over = call->over.get_future();
    call->stub->async()->BeginUpload(&call->context, &call->request, &call->response,
                                     [call](const grpc::Status&) {
                                       std::promise<void> told = std::move(call->over);
                                       delete call;
                                       told.set_value();
                                     });
    over.wait();
  }
}

}  // namespace
}  // namespace muster::worker
