// bulk_link: three streams of the same form.
#include "worker/links/bulk_link.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include "common/base/clock.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/links/bidi_stream.h"
#include "worker/links/channel.h"
#include "worker/links/head_rounds.h"

namespace muster::worker {
namespace {

constexpr int64_t kNotBeforeNextEndpoint = INT64_MAX;
constexpr size_t kWaitingMax =
    4;  // messages handed over at a time; the rest waits in the spools on disk

// Streams that are not finished, for Shutdown.
struct OpenCount {
  std::mutex mutex;
  std::condition_variable changed;
  int open = 0;
  void Add(int difference) {
    std::lock_guard<std::mutex> lock(mutex);
    open += difference;
    changed.notify_all();
  }
};

// One stream, redialed when it ends.
template <typename Request, typename Response>
class Lane {
 public:
  using Stream = BidiStream<Request, Response>;
  struct Hooks {
    typename Stream::Start start;
    std::function<void()> up;
    std::function<void(const Response&)> message;
    std::function<void()> writable;
  };

  Lane(Mailbox* io, std::shared_ptr<OpenCount> open, Hooks hooks, uint64_t seed)
      : io_(io), open_(std::move(open)), hooks_(std::move(hooks)), jitter_(seed) {}

  void DialNow() {
    failures_ = 0;
    next_dial_ms_ = 0;
  }
  std::optional<int64_t> NextDialMs() const {
    if (stream_ != nullptr) return std::nullopt;
    return next_dial_ms_;
  }
  bool CanSend() const { return stream_ != nullptr && stream_->Waiting() < kWaitingMax; }
  void Send(Request message) {
    if (stream_ != nullptr) stream_->Write(std::move(message));
  }
  void Drop() {
    ++generation_;
    if (stream_ != nullptr) stream_->Cancel();
    stream_.reset();
  }

  void MaybeDial(int64_t now_ms) {
    if (stream_ != nullptr || now_ms < next_dial_ms_) return;
    const uint64_t generation = ++generation_;
    typename Stream::Callbacks callbacks;
    callbacks.on_up = [] {};
    callbacks.on_written = [this, generation] {
      io_->Post([this, generation] {
        if (generation == generation_) hooks_.writable();
      });
    };
    callbacks.on_message = [this, generation](Response message) {
      io_->Post([this, generation, message = std::move(message)] {
        if (generation != generation_ || stream_ == nullptr) return;
        failures_ = 0;
        hooks_.message(message);
        stream_->Next();
      });
    };
    callbacks.on_done = [this, generation, open = open_](const grpc::Status& status) {
      const bool is_unknown = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
      io_->Post([this, generation, is_unknown] { OnDone(generation, is_unknown); });
      open->Add(-1);
    };
    open_->Add(1);
    stream_ = Stream::Open(hooks_.start, std::move(callbacks));
    hooks_.up();
  }

 private:
  void OnDone(uint64_t generation, bool is_unknown) {
    if (generation != generation_ || stream_ == nullptr) return;
    stream_.reset();
    if (is_unknown) {  // an older coordinator's; the next registration tries again
      next_dial_ms_ = kNotBeforeNextEndpoint;
      return;
    }
    const int64_t ceiling = DialPauseMaxMs(failures_);
    ++failures_;
    next_dial_ms_ =
        common::MonotonicMs() + std::uniform_int_distribution<int64_t>(0, ceiling)(jitter_);
  }

  Mailbox* const io_;
  const std::shared_ptr<OpenCount> open_;
  const Hooks hooks_;
  std::mt19937_64 jitter_;
  std::shared_ptr<Stream> stream_;
  uint64_t generation_ = 0;
  int failures_ = 0;
  int64_t next_dial_ms_ = 0;
};

}  // namespace

struct BulkLink::Parts {
  Parts(Mailbox* io, Callbacks callbacks, uint64_t seed)
      : logs(io, open,
             {[this](grpc::ClientContext* context, auto* stream) {
                stub->async()->UploadLogs(context, stream);
              },
              callbacks.logs_up, callbacks.log_ack, callbacks.writable},
             seed),
        metrics(io, open,
                {[this](grpc::ClientContext* context, auto* stream) {
                   stub->async()->UploadMetrics(context, stream);
                 },
                 callbacks.metrics_up, callbacks.metric_ack, callbacks.writable},
                seed + 1),
        samples(io, open,
                {[this](grpc::ClientContext* context, auto* stream) {
                   stub->async()->UploadSamples(context, stream);
                 },
                 [] {}, [](const v1::SampleReceipt&) {}, callbacks.writable},
                seed + 2) {}

  Route route;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::WorkerService::Stub> stub;
  std::shared_ptr<OpenCount> open = std::make_shared<OpenCount>();
  Lane<v1::LogChunk, v1::LogAck> logs;
  Lane<v1::MetricBatch, v1::MetricAck> metrics;
  Lane<v1::SampleBatch, v1::SampleReceipt> samples;
  bool wants_samples = false;
};

BulkLink::BulkLink(Mailbox* io, Callbacks callbacks, uint64_t jitter_seed)
    : parts_(std::make_unique<Parts>(io, std::move(callbacks), jitter_seed)) {}

BulkLink::~BulkLink() { Shutdown(); }

void BulkLink::SetRoute(const Route& route) {
  if (route != parts_->route) {
    parts_->logs.Drop();
    parts_->metrics.Drop();
    parts_->samples.Drop();
    parts_->route = route;
    parts_->channel = MakeChannel(route, true);
    parts_->stub = v1::WorkerService::NewStub(parts_->channel);
  }
  parts_->logs.DialNow();
  parts_->metrics.DialNow();
  parts_->samples.DialNow();
}

void BulkLink::MaybeDial(int64_t now_ms) {
  if (parts_->stub == nullptr) return;
  parts_->logs.MaybeDial(now_ms);
  parts_->metrics.MaybeDial(now_ms);
  if (parts_->wants_samples) parts_->samples.MaybeDial(now_ms);
}

std::optional<int64_t> BulkLink::NextDialMs() const {
  if (parts_->stub == nullptr) return std::nullopt;
  std::optional<int64_t> next = parts_->logs.NextDialMs();
  const auto consider = [&next](std::optional<int64_t> dial) {
    if (dial) next = std::min(next.value_or(*dial), *dial);
  };
  consider(parts_->metrics.NextDialMs());
  if (parts_->wants_samples) consider(parts_->samples.NextDialMs());
  return next;
}

bool BulkLink::CanSendLogs() const { return parts_->logs.CanSend(); }
void BulkLink::SendLogs(v1::LogChunk chunk) { parts_->logs.Send(std::move(chunk)); }
bool BulkLink::CanSendMetrics() const { return parts_->metrics.CanSend(); }
void BulkLink::SendMetrics(v1::MetricBatch batch) { parts_->metrics.Send(std::move(batch)); }

void BulkLink::WantSamples(bool wanted) {
  if (!wanted && parts_->wants_samples) parts_->samples.Drop();
  parts_->wants_samples = wanted;
}
bool BulkLink::CanSendSamples() const { return parts_->samples.CanSend(); }
void BulkLink::SendSamples(v1::SampleBatch batch) { parts_->samples.Send(std::move(batch)); }

void BulkLink::Shutdown() {
  parts_->samples.Drop();
  parts_->logs.Drop();
  parts_->metrics.Drop();
  std::unique_lock<std::mutex> lock(parts_->open->mutex);
  parts_->open->changed.wait(lock, [this] { return parts_->open->open == 0; });
}

}  // namespace muster::worker
