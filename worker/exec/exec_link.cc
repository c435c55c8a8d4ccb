#include "worker/exec/exec_link.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/base/clock.h"
#include "common/text/strings.h"
#include "muster/v1/exec.grpc.pb.h"
#include "worker/links/bidi_stream.h"
#include "worker/links/channel.h"
#include "worker/links/head_rounds.h"

namespace muster::worker {
namespace {

// The waiting stream. gRPC's threads only call the functions, which only post.
class OrderStream final : public grpc::ClientReadReactor<v1::ExecOrder> {
 public:
  struct Callbacks {
    std::function<void(v1::ExecOrder)> order;  // then call Next
    std::function<void(const grpc::Status&)> done;
  };
  static std::shared_ptr<OrderStream> Open(v1::ExecService::Stub& stub, const std::string& node,
                                           Callbacks callbacks) {
    std::shared_ptr<OrderStream> stream(new OrderStream(std::move(callbacks)));
    stream->self_ = stream;
    stream->request_.set_node(node);
    stub.async()->AwaitExec(&stream->context_, &stream->request_, stream.get());
    stream->AddHold();
    stream->StartRead(&stream->incoming_);
    stream->StartCall();
    return stream;
  }

  void Next() {
    std::lock_guard lock(mutex_);
    if (!is_closed_) StartRead(&incoming_);
  }
  void Cancel() {
    context_.TryCancel();
    Close();
  }
  void WaitUntilDone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done_; });
  }

 private:
  explicit OrderStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  void Close() {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(is_closed_, true)) return;
    }
    RemoveHold();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Close();  // a cancellation could overtake the coordinator's status
    callbacks_.order(std::move(incoming_));
  }
  void OnDone(const grpc::Status& status) override {
    callbacks_.done(status);
    const std::shared_ptr<OrderStream> last = std::move(self_);
    std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
  }

  const Callbacks callbacks_;
  grpc::ClientContext context_;
  v1::AwaitExecRequest request_;
  v1::ExecOrder incoming_;
  std::shared_ptr<OrderStream> self_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_closed_ = false;
  bool is_done_ = false;
};

using ServeStream = BidiStream<v1::ExecOutput, v1::ExecInput>;

class ServedSession final : public ExecStream {
 public:
  explicit ServedSession(std::shared_ptr<ServeStream> stream) : stream_(std::move(stream)) {}
  void Write(v1::ExecOutput message) override { stream_->Write(std::move(message)); }
  size_t Waiting() override { return stream_->Waiting(); }
  void Next() override { stream_->Next(); }
  void Cancel() override { stream_->Cancel(); }

 private:
  const std::shared_ptr<ServeStream> stream_;
};

}  // namespace

struct ExecLink::Parts {
  Route route;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::ExecService::Stub> stub;
  std::shared_ptr<OrderStream> orders;
};

ExecLink::ExecLink(std::string node, std::function<Route()> route, Mailbox* loop,
                   Callbacks callbacks, uint64_t jitter_seed)
    : node_(std::move(node)),
      route_(std::move(route)),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      jitter_(jitter_seed),
      parts_(std::make_unique<Parts>()) {}

ExecLink::~ExecLink() { Shutdown(); }

std::optional<int64_t> ExecLink::NextDialMs() const {
  if (!is_registered_ || is_older_ || is_closing_ || parts_->orders != nullptr) return std::nullopt;
  return next_dial_ms_;
}

void ExecLink::Follow(bool is_registered, int64_t now_ms) {
  if (is_registered && !is_registered_) {
    failures_ = 0;
    next_dial_ms_ = 0;
    is_older_ = false;
  }
  is_registered_ = is_registered;
  // The stream is kept until its end is reported.
  if (!is_registered_ && parts_->orders != nullptr) parts_->orders->Cancel();
  const std::optional<int64_t> due = NextDialMs();
  if (due && now_ms >= *due) Dial();
}

void ExecLink::Renew() {
  if (parts_->orders == nullptr) return;
  is_renewing_ = true;
  parts_->orders->Cancel();
}

void ExecLink::Dial() {
  // A separate connection, so that output never delays heartbeats.
  if (Route route = route_(); parts_->channel == nullptr || route != parts_->route) {
    parts_->route = std::move(route);
    parts_->channel = MakeChannel(parts_->route, true);
    parts_->stub = v1::ExecService::NewStub(parts_->channel);
  }
  parts_->orders = OrderStream::Open(
      *parts_->stub, node_,
      {.order =
           [this](v1::ExecOrder order) {
             loop_->Post([this, order = std::move(order)]() mutable {
               if (parts_->orders == nullptr) return;
               callbacks_.order(std::move(order));
               parts_->orders->Next();
             });
           },
       .done =
           [this](const grpc::Status& status) {
             const bool is_unknown = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
             loop_->Post([this, is_unknown, reason = status.error_message()] {
               OnDone(is_unknown, reason);
             });
           }});
}

void ExecLink::OnDone(bool is_unknown, const std::string& reason) {
  if (parts_->orders == nullptr) return;
  parts_->orders.reset();
  is_older_ = is_unknown;
  next_dial_ms_ = common::MonotonicMs();
  if (std::exchange(is_renewing_, false)) return;
  next_dial_ms_ += std::uniform_int_distribution<int64_t>(0, DialPauseMaxMs(failures_++))(jitter_);
  const std::string line =
      common::StrCat("commands in ranks cannot be ordered for now reason=\"", reason, "\"");
  if (!is_closing_ && line != std::exchange(last_note_, line)) callbacks_.note(line);
}

std::shared_ptr<ExecStream> ExecLink::Serve(const std::string& session,
                                            ExecStream::Callbacks callbacks) {
  ServeStream::Callbacks told;
  told.on_up = [] {};
  told.on_message = std::move(callbacks.message);
  told.on_written = std::move(callbacks.written);
  told.on_done = [done = std::move(callbacks.done)](const grpc::Status&) { done(); };
  std::shared_ptr<ServeStream> stream = ServeStream::Open(
      [this](grpc::ClientContext* context, ServeStream* reactor) {
        parts_->stub->async()->ServeExec(context, reactor);
      },
      std::move(told));
  v1::ExecOutput first;
  first.set_session(session);
  stream->Write(std::move(first));
  return std::make_shared<ServedSession>(std::move(stream));
}

void ExecLink::Shutdown() {
  is_closing_ = true;
  if (parts_->orders == nullptr) return;
  const std::shared_ptr<OrderStream> orders = std::move(parts_->orders);
  orders->Cancel();
  orders->WaitUntilDone();
}

}  // namespace muster::worker
