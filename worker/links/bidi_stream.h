// One bidirectional gRPC stream as a client sees it, over the callback API. gRPC's threads only
// call the callbacks, which only enqueue; one read and one write are in flight; the next message is
// read when the consumer asks for it. Only links include this file. Lives until OnDone, keeping
// itself alive.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace muster::worker {

template <typename Request, typename Response>
class BidiStream final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  // Called on gRPC's threads, each at most once at a time. Nothing is called after on_done.
  struct Callbacks {
    std::function<void()> on_up;               // writing is now possible
    std::function<void(Response)> on_message;  // then call Next()
    std::function<void()> on_written;          // the outbox has shrunk
    std::function<void(const grpc::Status&)> on_done;
  };

  using Start = std::function<void(grpc::ClientContext*, BidiStream*)>;

  // `start` calls stub->async()->Method(context, stream).
  static std::shared_ptr<BidiStream> Open(const Start& start, Callbacks callbacks) {
    std::shared_ptr<BidiStream> stream(new BidiStream(std::move(callbacks)));
    stream->self_ = stream;
    start(&stream->context_, stream.get());
    stream->AddHold();
    stream->StartRead(&stream->incoming_);
    stream->StartCall();
    stream->callbacks_.on_up();
    return stream;
  }

  // Any thread. False if the stream is ending: the message is dropped.
  bool Write(Request message) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return false;
    outbox_.push_back(std::move(message));
    if (outbox_.size() == 1) this->StartWrite(&outbox_.front());
    return true;
  }
  // Messages not yet handed to the transport.
  size_t Waiting() {
    std::lock_guard<std::mutex> lock(mutex_);
    return outbox_.size();
  }
  // The consumer has processed the last message.
  void Next() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) this->StartRead(&incoming_);
  }
  // Ends the stream; on_done follows, whether or not a read is in progress.
  void Cancel() {
    context_.TryCancel();
    Close();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Close();
    callbacks_.on_message(std::move(incoming_));
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Close();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      outbox_.pop_front();
      if (!outbox_.empty() && !closed_) this->StartWrite(&outbox_.front());
    }
    callbacks_.on_written();
  }
  void OnDone(const grpc::Status& status) override {
    callbacks_.on_done(status);
    std::shared_ptr<BidiStream> last = std::move(self_);
  }

 private:
  explicit BidiStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // Operations may start outside of reactions, so a hold keeps the call open until one of them
  // fails. Then the peer has ended the call or is gone; a cancellation could overtake the status that tells which.
  void Close() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return;
      closed_ = true;
    }
    this->RemoveHold();
  }

  grpc::ClientContext context_;
  const Callbacks callbacks_;
  Response incoming_;
  std::shared_ptr<BidiStream> self_;
  std::mutex mutex_;
  std::deque<Request> outbox_;  // guarded; the front is in flight
  bool closed_ = false;         // guarded
};

}  // namespace muster::worker
