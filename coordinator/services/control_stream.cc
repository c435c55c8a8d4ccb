#include "coordinator/services/control_stream.h"

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "common/problem.h"
#include "coordinator/audit/audit.h"
#include "coordinator/rpc/secrets.h"
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

  void Open(const Caller& caller) {
    auto self = std::static_pointer_cast<ControlStream>(shared_from_this());
    session_ = std::make_shared<WorkerSession>(
        daemon_, NodeOf(caller), std::weak_ptr<CommandSink>(std::shared_ptr<CommandSink>(self)));
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
    if (message.has_heartbeat_reply() && daemon_.audit.IsKept()) {
      *message.mutable_heartbeat_reply()->mutable_audit() = daemon_.audit.head();
    }
    if (Bytes() > kOutboxBytesMax) {
      return EnqueueClose(absl::ResourceExhaustedError(
          "the worker reads the control stream too slowly; register again"));
    }
    {
      std::lock_guard lock(launches_mutex_);
      if (!launches_.empty() || HasSecrets(message)) {
        launches_.push_back(std::move(message));
        if (launches_.size() > 1) return;
        auto self = std::static_pointer_cast<ControlStream>(shared_from_this());
        return daemon_.pool.Post([self] { self->SendLaunches(); });
      }
    }
    Enqueue(std::move(message));
  }
  void Close(const absl::Status& status) override { EnqueueClose(status); }

 private:
  static bool HasSecrets(const v1::CoordinatorMessage& message) {
    return message.has_launch() && !message.launch().spec().secrets().empty();
  }
  // On the pool, as values are read from a disk. They are in this message alone: neither in the
  // journal nor in the state. What was to be sent meanwhile follows in its order.
  void SendLaunches() {
    while (true) {
      v1::CoordinatorMessage message;
      {
        std::lock_guard lock(launches_mutex_);
        message = launches_.front();
      }
      if (HasSecrets(message)) AddSecrets(daemon_, message.mutable_launch());
      Enqueue(std::move(message));
      std::lock_guard lock(launches_mutex_);
      launches_.pop_front();
      if (launches_.empty()) return;
    }
  }

  void OnMessage(v1::WorkerMessage message) override {
    session_->OnMessage(std::move(message), [self = shared_from_this(), this] { ReadNext(); });
  }
  void OnHalfClose() override { EnqueueClose(absl::OkStatus()); }
  void OnGone() override { session_->OnGone(); }

  Daemon& daemon_;
  std::shared_ptr<WorkerSession> session_;
  std::mutex launches_mutex_;                    // guards what follows
  std::deque<v1::CoordinatorMessage> launches_;  // those with secrets, and what comes after them
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* BeginControlStream(
    Daemon& daemon, const Caller& caller) {
  auto stream = std::make_shared<ControlStream>(daemon);
  stream->Open(caller);
  return stream.get();
}

}  // namespace muster::coordinator
