#include "coordinator/services/control_stream.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/limits.h"
#include "common/problem.h"
#include "coordinator/audit/audit.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/sealed_environment.h"
#include "coordinator/calls/secrets.h"
#include "coordinator/calls/worker_session.h"
#include "coordinator/services/streams.h"
#include "coordinator/services/waiting_launches.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::seconds kRegisterWithin{10};
// A worker that reads this slowly is disconnected; its next registration resends everything.
// limit: nodes: commands for a node that is not reading, with launches that wait for their secrets; its stream is
// closed, and registration resends what matters
constexpr size_t kOutboxBytesMax = 64 << 20;

using ControlDuplex = DuplexStream<v1::WorkerMessage, v1::CoordinatorMessage>;

class ControlStream final : public ControlDuplex, public CommandSink {
 public:
  explicit ControlStream(Daemon& daemon) : daemon_(daemon) {}

  void Open(const Caller& caller) {
    auto self = std::static_pointer_cast<ControlStream>(shared_from_this());
    session_ = std::make_shared<WorkerSession>(
        daemon_.jobs, daemon_.stores, daemon_.traffic, daemon_.instance, daemon_.process,
        NodeOf(caller), std::weak_ptr<CommandSink>(std::shared_ptr<CommandSink>(self)));
    Begin();
    daemon_.process.pool.PostAfter(kRegisterWithin, [weak = std::weak_ptr<ControlStream>(self)] {
      const auto stream = weak.lock();
      if (stream == nullptr || stream->session_->IsRegistered()) return;
      stream->Close(
          common::MakeProblem(absl::StatusCode::kDeadlineExceeded,
                              {.code = "JC1302", .what = "no registration arrived within 10 s"}));
    });
  }

  void Send(v1::CoordinatorMessage message) override {
    if (message.has_heartbeat_reply() && daemon_.access.audit.IsKept()) {
      *message.mutable_heartbeat_reply()->mutable_audit() = daemon_.access.audit.head();
    }
    if (message.has_registered()) NameHeads(*message.mutable_registered());
    if (message.has_heartbeat_reply()) NameHeads(*message.mutable_heartbeat_reply());
    if (Bytes() + launches_.Bytes() > kOutboxBytesMax) return EndSlow();
    switch (launches_.Take(message)) {
      case WaitingLaunches::Took::kNo:
        return Deliver(std::move(message));
      case WaitingLaunches::Took::kYes:
        return;
      case WaitingLaunches::Took::kFirst:
        auto self = std::static_pointer_cast<ControlStream>(shared_from_this());
        return daemon_.process.pool.Post([self] { self->SendLaunches(); });
    }
  }
  void Close(const absl::Status& status) override { EnqueueClose(status); }

 private:
  // Of several coordinators, once, and again after a change.
  template <typename Message>
  void NameHeads(Message& message) {
    const Leading* leading = daemon_.instance.leading;
    if (leading == nullptr) return;
    const uint64_t changes = leading->changes();
    if (named_at_.exchange(changes) == changes) return;
    for (const v1::HeadRecord& head : leading->view().heads) {
      message.add_heads(head.endpoint());
      if (!head.http().empty()) message.add_https(head.http());
    }
  }
  void EndSlow() {
    launches_.Drop();
    EnqueueClose(absl::ResourceExhaustedError(
        "the worker reads the control stream too slowly; register again"));
  }
  // Runs on the pool. Secrets make launches larger; the added bytes count here.
  void SendLaunches() {
    launches_.SendAll([this](v1::LaunchAttempt* launch) { AddSecrets(daemon_.access, launch); },
                      [this](v1::CoordinatorMessage message) {
                        if (Bytes() > kOutboxBytesMax) return EndSlow();
                        Deliver(std::move(message));
                      });
  }
  // The environment of the ranks that the order is about.
  absl::Status OpenFor(v1::CoordinatorMessage& order) const {
    if (order.has_launch())
      return OpenEnvironment(daemon_.access.cluster, order.mutable_launch()->mutable_spec());
    if (!order.has_prepare() || !order.prepare().has_spec()) return absl::OkStatus();
    return OpenEnvironment(daemon_.access.cluster, order.mutable_prepare()->mutable_spec());
  }
  // A message that cannot be completed, or is too large for the worker, ends only the job that it
  // is for.
  void Deliver(v1::CoordinatorMessage message) {
    if (const absl::Status opened = OpenFor(message); !opened.ok())
      return session_->OnUnsendable(message, opened);
    if (message.ByteSizeLong() > common::kControlMessageBytesMax) {
      return session_->OnTooLarge(message);
    }
    Enqueue(std::move(message));
  }

  void OnMessage(v1::WorkerMessage message) override {
    session_->OnMessage(std::move(message), [self = shared_from_this(), this] { ReadNext(); });
  }
  void OnHalfClose() override { EnqueueClose(absl::OkStatus()); }
  void OnGone() override {
    launches_.Drop();
    session_->OnGone();
  }

  Daemon& daemon_;
  std::shared_ptr<WorkerSession> session_;
  WaitingLaunches launches_;
  std::atomic<uint64_t> named_at_{UINT64_MAX};  // Leading::changes when it was last told the others
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* BeginControlStream(
    Daemon& daemon, const Caller& caller, CallBudget::Hold hold) {
  auto stream = std::make_shared<ControlStream>(daemon);
  stream->Keep(std::move(hold));
  stream->Open(caller);
  return stream.get();
}

}  // namespace muster::coordinator
