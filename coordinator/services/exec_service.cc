#include "coordinator/services/exec_service.h"

#include <grpcpp/grpcpp.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "coordinator/calls/audited.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/exec/exec.h"
#include "coordinator/services/caller.h"
#include "coordinator/services/refused.h"
#include "coordinator/services/streams.h"
#include "muster/v1/exec.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;

const AuditedCall kExecCall{*common::FindCall("ExecService", "Exec")};
const common::Call& kAwaitExecCall = *common::FindCall("ExecService", "AwaitExec");
const common::Call& kServeExecCall = *common::FindCall("ExecService", "ServeExec");

// The part that the audit keeps: without the arguments, which may be secrets.
v1::ExecStart ForAudit(const v1::ExecStart& start) {
  v1::ExecStart kept;
  kept.set_job(start.job());
  if (start.command_size() > 0) kept.add_command(start.command(0));
  return kept;
}

// A person's stream.
class ExecClientStream final : public DuplexStream<v1::ExecInput, v1::ExecOutput>,
                               public ExecClient {
 public:
  ExecClientStream(Daemon& daemon, Caller caller) : daemon_(daemon), caller_(std::move(caller)) {}
  void Open() {
    session_->Begin(std::static_pointer_cast<ExecClientStream>(shared_from_this()));
    daemon_.jobs.execs.ExpectStart(session_);
    Begin();
  }

  void Write(v1::ExecOutput message) override { Enqueue(std::move(message)); }
  size_t QueuedBytes() const override { return Bytes(); }
  void ReadNext() override { DuplexStream::ReadNext(); }
  void Close(const absl::Status& status) override { EnqueueClose(status); }

 private:
  void OnMessage(v1::ExecInput message) override {
    if (!session_->TakeStart()) return session_->OnInput(std::move(message));
    auto self = std::static_pointer_cast<ExecClientStream>(shared_from_this());
    const auto answered = [self](const absl::StatusOr<v1::ExecStarted>& started) {
      if (!started.ok()) self->EnqueueClose(started.status());
    };
    const v1::ExecStart& start = message.start();
    RunAuditedAs<v1::ExecStarted>(daemon_.access, kExecCall, caller_, ForAudit(start), answered,
                                  [&](Answer<v1::ExecStarted> answer) {
                                    BeginExec(daemon_.jobs, daemon_.process, caller_, start,
                                              session_, std::move(answer));
                                  });
  }
  // A message marks the end of its input; output and signals still need the stream.
  void OnHalfClose() override {}
  void OnWritten() override { session_->ClientWritten(); }
  void OnGone() override { session_->ClientGone(); }

  Daemon& daemon_;
  const Caller caller_;
  const std::shared_ptr<ExecSession> session_ = std::make_shared<ExecSession>();
};

// A worker's stream.
class ExecNodeStream final : public DuplexStream<v1::ExecOutput, v1::ExecInput>, public ExecNode {
 public:
  ExecNodeStream(Daemon& daemon, Caller caller) : daemon_(daemon), caller_(std::move(caller)) {}

  void Write(v1::ExecInput message) override { Enqueue(std::move(message)); }
  size_t QueuedBytes() const override { return Bytes(); }
  void ReadNext() override { DuplexStream::ReadNext(); }
  void Close(const absl::Status& status) override { EnqueueClose(status); }

 private:
  void OnMessage(v1::ExecOutput message) override {
    if (const auto session = Session(); session != nullptr)
      return session->OnOutput(std::move(message));
    auto found = daemon_.jobs.execs.Serve(message.session(), caller_);
    if (!found.ok()) return EnqueueClose(found.status());
    {
      std::lock_guard lock(mutex_);
      session_ = *found;
    }
    (*found)->Join(std::static_pointer_cast<ExecNodeStream>(shared_from_this()));
  }
  void OnHalfClose() override { EnqueueClose(absl::OkStatus()); }
  void OnWritten() override {
    if (const auto session = Session(); session != nullptr) session->NodeWritten();
  }
  void OnGone() override {
    if (const auto session = Session(); session != nullptr) session->NodeGone();
  }
  std::shared_ptr<ExecSession> Session() {
    std::lock_guard lock(mutex_);
    return session_;
  }

  Daemon& daemon_;
  const Caller caller_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<ExecSession> session_;
};

class ExecServiceRpcs final : public v1::ExecService::CallbackService {
 public:
  ExecServiceRpcs(Daemon& daemon, Peers& peers) : daemon_(daemon), peers_(peers) {}

  grpc::ServerBidiReactor<v1::ExecInput, v1::ExecOutput>* Exec(
      CallbackServerContext* context) override {
    const Asker asker = AskerOf(daemon_, peers_, *context, kExecCall.row);
    if (!asker.admitted.ok()) {
      RecordRefusal(daemon_.access, kExecCall, asker.caller, v1::ExecStart(), asker.admitted);
      return new RefusedDuplex<v1::ExecInput, v1::ExecOutput>(asker.admitted);
    }
    absl::StatusOr<CallBudget::Hold> hold = TakeShare(daemon_, asker.caller, kExecCall.row);
    if (!hold.ok()) return new RefusedDuplex<v1::ExecInput, v1::ExecOutput>(hold.status());
    auto stream = std::make_shared<ExecClientStream>(daemon_, asker.caller);
    stream->Keep(*std::move(hold));
    stream->Open();
    return stream.get();
  }

  grpc::ServerWriteReactor<v1::ExecOrder>* AwaitExec(CallbackServerContext* context,
                                                     const v1::AwaitExecRequest* request) override {
    auto stream = ServerStream<v1::ExecOrder>::Make();
    const Asker asker = AskerOf(daemon_, peers_, *context, kAwaitExecCall);
    absl::Status may = asker.admitted;
    if (may.ok()) may = CheckServes(asker.caller, request->node());
    absl::StatusOr<CallBudget::Hold> hold;
    if (may.ok()) hold = TakeShare(daemon_, asker.caller, kAwaitExecCall);
    if (may.ok()) may = hold.status();
    if (may.ok()) {
      stream->Keep(*std::move(hold));
      daemon_.jobs.execs.Await(request->node(), stream);
    } else {
      stream->Close(may);
    }
    return stream.get();
  }

  grpc::ServerBidiReactor<v1::ExecOutput, v1::ExecInput>* ServeExec(
      CallbackServerContext* context) override {
    const Asker asker = AskerOf(daemon_, peers_, *context, kServeExecCall);
    if (!asker.admitted.ok())
      return new RefusedDuplex<v1::ExecOutput, v1::ExecInput>(asker.admitted);
    absl::StatusOr<CallBudget::Hold> hold = TakeShare(daemon_, asker.caller, kServeExecCall);
    if (!hold.ok()) return new RefusedDuplex<v1::ExecOutput, v1::ExecInput>(hold.status());
    auto stream = std::make_shared<ExecNodeStream>(daemon_, asker.caller);
    stream->Keep(*std::move(hold));
    stream->Begin();
    return stream.get();
  }

 private:
  Daemon& daemon_;
  Peers& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeExecService(Daemon& daemon, Peers& peers) {
  return std::make_unique<ExecServiceRpcs>(daemon, peers);
}

}  // namespace muster::coordinator
