// gRPC's reactors as queues: any thread writes, one message is in flight at a time, and the
// client's disconnect is reported once. Nothing here waits, and no lock is held while gRPC or a
// handler is called.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/contexts/sink.h"
#include "coordinator/services/grpc_status.h"

namespace muster::coordinator {

// The writing half, shared by server streams and bidirectional streams.
template <typename T>
class WriteQueue {
 public:
  virtual ~WriteQueue() = default;

  void Enqueue(T message) {
    const T* next = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (closing_) return;
      bytes_ += message.ByteSizeLong();
      queue_.push_back(std::move(message));
      if (queue_.size() == 1) next = &queue_.front();
    }
    if (next != nullptr) BeginWrite(next);
  }

  void EnqueueClose(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (closing_) return;
      closing_ = true;
      status_ = ToGrpc(status);
      if (!queue_.empty()) return;
      finished_ = true;
    }
    BeginFinish(status_);
  }

  // The client is gone: queued messages are dropped.
  void Abandon() {
    {
      std::lock_guard lock(mutex_);
      abandoned_ = true;
      if (!closing_) status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the client disconnected");
      closing_ = true;
      if (!queue_.empty() || finished_) return;
      finished_ = true;
    }
    BeginFinish(status_);
  }

  size_t Bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }
  bool IsAbandoned() const {
    std::lock_guard lock(mutex_);
    return abandoned_;
  }

 protected:
  // From OnWriteDone. True: the queue has just fallen below `low` bytes.
  bool Written(bool ok, size_t low) {
    const T* next = nullptr;
    bool finish = false;
    bool drained = false;
    {
      std::lock_guard lock(mutex_);
      const size_t before = bytes_;
      bytes_ -= queue_.front().ByteSizeLong();
      queue_.pop_front();
      drained = before >= low && bytes_ < low;
      if (!ok || abandoned_) {
        queue_.clear();
        bytes_ = 0;
        abandoned_ = true;
        if (!closing_)
          status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the client disconnected");
        closing_ = true;
      }
      if (!queue_.empty()) {
        next = &queue_.front();
      } else if (closing_ && !finished_) {
        finished_ = finish = true;
      }
    }
    if (next != nullptr) BeginWrite(next);
    if (finish) BeginFinish(status_);
    return drained && !finish;
  }

  virtual void BeginWrite(const T* message) = 0;
  virtual void BeginFinish(const grpc::Status& status) = 0;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::deque<T> queue_;       // the front is being written
  size_t bytes_ = 0;
  grpc::Status status_;
  bool closing_ = false;
  bool finished_ = false;
  bool abandoned_ = false;
};

// A server stream. Lives until gRPC is done with it.
template <typename T>
class ServerStream final : public grpc::ServerWriteReactor<T>,
                           public Sink<T>,
                           private WriteQueue<T>,
                           public std::enable_shared_from_this<ServerStream<T>> {
 public:
  static std::shared_ptr<ServerStream> Make() {
    auto stream = std::make_shared<ServerStream>();
    stream->self_ = stream;
    return stream;
  }
  // Keeps something alive until the call is over.
  void Keep(std::shared_ptr<void> hold) { hold_ = std::move(hold); }

  void Write(T message) override { this->Enqueue(std::move(message)); }
  void Close(const absl::Status& status) override { this->EnqueueClose(status); }
  size_t QueuedBytes() const override { return this->Bytes(); }
  bool Gone() const override { return this->IsAbandoned(); }
  void Observe(std::function<void()> drained, std::function<void()> gone) override {
    std::unique_lock lock(observer_mutex_);
    if (done_) {
      lock.unlock();
      if (gone) gone();
      return;
    }
    drained_ = std::move(drained);
    gone_ = std::move(gone);
  }

 private:
  void BeginWrite(const T* message) override { this->StartWrite(message); }
  void BeginFinish(const grpc::Status& status) override { this->Finish(status); }
  void OnWriteDone(bool ok) override {
    if (!this->Written(ok, Sink<T>::kFullBytes / 2)) return;
    std::function<void()> drained;
    {
      std::lock_guard lock(observer_mutex_);
      drained = drained_;
    }
    if (drained) drained();
  }
  void OnCancel() override { this->Abandon(); }
  void OnDone() override {
    std::function<void()> drained;
    std::function<void()> gone;
    {
      std::lock_guard lock(observer_mutex_);
      done_ = true;
      drained.swap(drained_);
      gone.swap(gone_);
    }
    if (gone) gone();
    const std::shared_ptr<ServerStream> self = std::move(self_);
  }

  std::shared_ptr<void> hold_;
  std::shared_ptr<ServerStream> self_;
  std::mutex observer_mutex_;  // guards what follows
  std::function<void()> drained_;
  std::function<void()> gone_;
  bool done_ = false;
};

// A bidirectional stream. The subclass receives messages and calls ReadNext for the next one.
template <typename In, typename Out>
class DuplexStream : public grpc::ServerBidiReactor<In, Out>,
                     protected WriteQueue<Out>,
                     public std::enable_shared_from_this<DuplexStream<In, Out>> {
 public:
  // After construction, once a shared_ptr owns it.
  void Begin() {
    self_ = this->shared_from_this();
    ReadNext();
  }
  // Keeps something alive until the call is over. Call it before Begin.
  void Keep(std::shared_ptr<void> hold) { hold_ = std::move(hold); }

 protected:
  virtual void OnMessage(In message) = 0;
  // The client will send nothing more; it may still read.
  virtual void OnHalfClose() = 0;
  virtual void OnGone() = 0;
  // A message has left; the queue is smaller.
  virtual void OnWritten() {}
  void ReadNext() {
    // Under the lock: no read may start once Finish has been called.
    std::lock_guard lock(read_mutex_);
    if (!finishing_) this->StartRead(&incoming_);
  }

 private:
  void BeginWrite(const Out* message) final { this->StartWrite(message); }
  void BeginFinish(const grpc::Status& status) final {
    {
      std::lock_guard lock(read_mutex_);
      finishing_ = true;
    }
    this->Finish(status);
  }
  void OnReadDone(bool ok) final {
    if (!ok) return OnHalfClose();
    In message = std::move(incoming_);
    incoming_.Clear();
    OnMessage(std::move(message));
  }
  void OnWriteDone(bool ok) final {
    this->Written(ok, 0);
    OnWritten();
  }
  void OnCancel() final { this->Abandon(); }
  void OnDone() final {
    OnGone();
    const auto self = std::move(self_);
  }

  In incoming_;
  std::shared_ptr<void> hold_;
  std::shared_ptr<DuplexStream> self_;
  std::mutex read_mutex_;  // guards what follows
  bool finishing_ = false;
};

}  // namespace muster::coordinator
