#include "coordinator/services/control_stream.h"

#include <chrono>
#include <memory>
#include <utility>

#include "common/problem.h"
#include "coordinator/rpc/worker_session.h"
#include "coordinator/services/streams.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::seconds kRegisterWithin{10};
// A worker that reads this slowly is disconnected; its next registration resends everything.
constexpr size_t kOutboxBytesMax = 64 << 20;

using ControlDuplex = DuplexStream<v1::WorkerMessage, v1::CoordinatorMessage>;

class ControlStream final : public ControlDuplex, public CommandSink {
 public:
  explicit ControlStream(Daemon& daemon) : daemon_(daemon) {}

  void Open() {
    auto self = std::static_pointer_cast<ControlStream>(shared_from_this());
    session_ = std::make_unique<WorkerSession>(
        daemon_, std::weak_ptr<CommandSink>(std::shared_ptr<CommandSink>(self)));
    Begin();
    daemon_.pool.PostAfter(kRegisterWithin, [weak = std::weak_ptr<ControlStream>(self)] {
      const auto stream = weak.lock();
      if (stream == nullptr || stream->session_->IsRegistered()) return;
      stream->Close(
          common::MakeProblem(absl::StatusCode::kDeadlineExceeded,
                              {.code = "JC1302", .what = "no registration arrived within 10 s"}));
    });
  }

  void Send(v1::CoordinatorMessage message) override {
    if (Bytes() > kOutboxBytesMax) {
      return EnqueueClose(absl::ResourceExhaustedError(
          "the worker reads the control stream too slowly; register again"));
    }
    Enqueue(std::move(message));
  }
  void Close(const absl::Status& status) override { EnqueueClose(status); }

 private:
  void OnMessage(v1::WorkerMessage message) override {
    session_->OnMessage(std::move(message), [self = shared_from_this(), this] { ReadNext(); });
  }
  void OnHalfClose() override { EnqueueClose(absl::OkStatus()); }
  void OnGone() override { session_->OnGone(); }

  Daemon& daemon_;
  std::unique_ptr<WorkerSession> session_;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* BeginControlStream(
    Daemon& daemon) {
  auto stream = std::make_shared<ControlStream>(daemon);
  stream->Open();
  return stream.get();
}

}  // namespace muster::coordinator
