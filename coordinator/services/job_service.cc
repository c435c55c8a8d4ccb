#include "coordinator/services/job_service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>

#include <memory>
#include <utility>

#include "common/calls.h"
#include "coordinator/calls/audited.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/unary_calls.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/push_objects.h"
#include "coordinator/services/refused.h"
#include "coordinator/services/streams.h"
#include "coordinator/services/submit_many.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

namespace internal = grpc::internal;  // generated services use it, too

using google::protobuf::Message;
using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// The calls as gRPC's methods, without the generated service: the generated one is a chain of class templates, one
// for each method, which takes half a minute to compile and 5 MB. One handler passes all calls with one answer
// through as bytes; messages of streams are typed.
class JobServiceRpcs final : public grpc::Service {
 public:
  JobServiceRpcs(Daemon& daemon, Peers& peers) : daemon_(daemon), peers_(peers) {
    for (const UnaryCall& call : UnaryCalls()) AddUnary(call);
#define MUSTER_STREAM(name, Request, Message, action, object, cost)                   \
  AddStream<call::name, v1::Message>("/muster.v1.JobService/" #name, CallId::k##name, \
                                     *common::FindCall("JobService", #name));
#define MUSTER_OTHER(name, Request, Message, action, object, cost)
    MUSTER_JOB_CALLS(MUSTER_OTHER, MUSTER_STREAM, MUSTER_OTHER, MUSTER_OTHER)
#undef MUSTER_STREAM
#undef MUSTER_OTHER
    using PushHandler =
        internal::CallbackClientStreamingHandler<v1::ObjectChunk, v1::PushObjectsResponse>;
    Add("/muster.v1.JobService/PushObjects", internal::RpcMethod::CLIENT_STREAMING,
        new PushHandler([this](CallbackServerContext* context, v1::PushObjectsResponse* response) {
          return PushObjects(*context, response);
        }));
    using ManyHandler = internal::CallbackBidiHandler<v1::SubmitRequest, v1::SubmitResponse>;
    Add("/muster.v1.JobService/SubmitMany", internal::RpcMethod::BIDI_STREAMING,
        new ManyHandler([this](CallbackServerContext* context) { return SubmitMany(*context); }));
  }

 private:
  // Takes ownership of the handler. The path must last.
  void Add(const char* path, internal::RpcMethod::RpcType type, internal::MethodHandler* handler) {
    AddMethod(new internal::RpcServiceMethod(path, type, nullptr));
    MarkMethodCallback(methods_++, handler);
  }

  void AddUnary(const UnaryCall& call) {
    using Handler = internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>;
    Add(call.path, internal::RpcMethod::NORMAL_RPC,
        new Handler([this, &call](CallbackServerContext* context, const ByteBuffer* request,
                                  ByteBuffer* response) {
          return Unary(call, *context, *request, response);
        }));
  }

  ServerUnaryReactor* Unary(const UnaryCall& call, CallbackServerContext& context, ByteBuffer bytes,
                            ByteBuffer* response) {
    ServerUnaryReactor* reactor = context.DefaultReactor();
    const std::shared_ptr<Message> request(call.request.New());
    if (const grpc::Status parsed = Parsing::Deserialize(&bytes, request.get()); !parsed.ok()) {
      reactor->Finish(parsed);
      return reactor;
    }
    daemon_.traffic.calls.Add(call.id, Way::kGrpc);
    const Asker asker = AskerOf(daemon_, peers_, context, call.row);
    if (!asker.admitted.ok()) {
      RecordRefusal(daemon_.access, {call.row}, asker.caller, *request, asker.admitted);
      reactor->Finish(ToGrpc(asker.admitted));
      return reactor;
    }
    // A handler may look at the request until it has answered.
    RunUnary(call, daemon_, asker.caller, Way::kGrpc, *request,
             [reactor, response, request](const absl::Status& status,
                                          const std::shared_ptr<Message>& answer) {
               if (!status.ok()) return reactor->Finish(ToGrpc(status));
               bool is_own_buffer = false;
               reactor->Finish(Parsing::Serialize(*answer, response, &is_own_buffer));
             });
    return reactor;
  }

  template <typename Call, typename Part>
  void AddStream(const char* path, CallId id, const common::Call& row) {
    using Request = typename Call::Request;
    using Handler = internal::CallbackServerStreamingHandler<Request, Part>;
    Add(path, internal::RpcMethod::SERVER_STREAMING,
        new Handler([this, id, &row](CallbackServerContext* context,
                                     const Request* request) -> grpc::ServerWriteReactor<Part>* {
          auto stream = ServerStream<Part>::Make();
          daemon_.traffic.calls.Add(id, Way::kGrpc);
          const Asker asker = AskerOf(daemon_, peers_, *context, row);
          if (!asker.admitted.ok()) {
            RecordRefusal(daemon_.access, {row}, asker.caller, *request, asker.admitted);
            stream->Close(asker.admitted);
            return stream.get();
          }
          const auto sink = Audited<Request, Part>(daemon_.jobs, daemon_.access, daemon_.traffic,
                                                   {row}, asker.caller, *request, stream);
          if (sink != nullptr) Call::Handle(daemon_, asker.caller, *request, sink);
          return stream.get();
        }));
  }

  grpc::ServerReadReactor<v1::ObjectChunk>* PushObjects(const CallbackServerContext& context,
                                                        v1::PushObjectsResponse* response) {
    daemon_.traffic.calls.Add(CallId::kPushObjects, Way::kGrpc);
    const Asker asker = AskerOf(daemon_, peers_, context, kPushObjectsCall);
    if (asker.admitted.ok()) {
      absl::StatusOr<CallBudget::Hold> hold = TakeShare(daemon_, asker.caller, kPushObjectsCall);
      if (hold.ok()) return BeginPushObjects(daemon_, asker.caller, *std::move(hold), response);
      return new RefusedRead<v1::ObjectChunk>(hold.status());
    }
    RecordRefusal(daemon_.access, {kPushObjectsCall}, asker.caller, v1::PrepareObjectsRequest(),
                  asker.admitted);
    return new RefusedRead<v1::ObjectChunk>(asker.admitted);
  }

  grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* SubmitMany(
      const CallbackServerContext& context) {
    daemon_.traffic.calls.Add(CallId::kSubmitMany, Way::kGrpc);
    const Asker asker = AskerOf(daemon_, peers_, context, kSubmitManyCall);
    if (asker.admitted.ok()) {
      absl::StatusOr<CallBudget::Hold> hold = TakeShare(daemon_, asker.caller, kSubmitManyCall);
      if (hold.ok()) return BeginSubmitMany(daemon_, asker.caller, *std::move(hold));
      return new RefusedDuplex<v1::SubmitRequest, v1::SubmitResponse>(hold.status());
    }
    RecordRefusal(daemon_.access, {kSubmitManyCall}, asker.caller, v1::SubmitRequest(),
                  asker.admitted);
    return new RefusedDuplex<v1::SubmitRequest, v1::SubmitResponse>(asker.admitted);
  }

  using Parsing = grpc::SerializationTraits<Message>;

  Daemon& daemon_;
  Peers& peers_;
  int methods_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(Daemon& daemon, Peers& peers) {
  return std::make_unique<JobServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
