#include "scale_writers.h"

#include <grpcpp/create_channel.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "common/kernel/process.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::bench {
namespace {

using Stub = v1::WorkerService::Stub;

// How many streams are still open.
class Open {
 public:
  void Add(int count) {
    std::lock_guard lock(mutex_);
    open_ += count;
  }
  void End(bool is_whole) {
    std::lock_guard lock(mutex_);
    all_whole_ = all_whole_ && is_whole;
    if (--open_ == 0) ended_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::minutes(1), [this] { return open_ == 0; }) &&
           all_whole_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  int open_ = 0;
  bool all_whole_ = true;
};

// Sends one piece after the other. Ends at the answer that `is_last`, or, without that, with the last piece.
template <typename Piece, typename Answer>
class Sender final : public grpc::ClientBidiReactor<Piece, Answer> {
 public:
  Sender(Open* open, std::function<Piece(int)> make, std::function<bool(const Answer&)> is_last)
      : open_(open), make_(std::move(make)), is_last_(std::move(is_last)) {}

  grpc::ClientContext* context() { return &context_; }
  void Begin() {
    Send();
    this->StartRead(&answer_);
    this->StartCall();
  }

 private:
  void Send() {
    piece_ = make_(sent_);
    this->StartWrite(&piece_);
  }
  void OnWriteDone(bool ok) override {
    if (ok && ++sent_ < kPiecesEach) return Send();
    if (ok && is_last_ == nullptr) this->StartWritesDone();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    is_whole_ = is_last_ != nullptr && is_last_(answer_);
    if (is_whole_) return this->StartWritesDone();
    this->StartRead(&answer_);
  }
  void OnDone(const grpc::Status& status) override {
    open_->End(status.ok() && (is_whole_ || is_last_ == nullptr));
  }

  Open* const open_;
  const std::function<Piece(int)> make_;
  const std::function<bool(const Answer&)> is_last_;
  grpc::ClientContext context_;
  Piece piece_;
  Answer answer_;
  int sent_ = 0;
  bool is_whole_ = false;
};

// Of lines of 100 bytes.
std::string Output() {
  std::string text;
  while (text.size() < kOutputPieceBytes) text += std::string(99, 'x') + "\n";
  text.resize(kOutputPieceBytes);
  return text;
}

// A message about the rank's attempt.
template <typename Message>
Message About(const Writing& who) {
  Message message;
  message.set_job(who.job);
  message.set_attempt(who.attempt);
  return message;
}

v1::LogChunk OutputPiece(const Writing& who, int number) {
  static const std::string text = Output();
  auto chunk = About<v1::LogChunk>(who);
  chunk.set_rank(who.rank);
  chunk.set_stream(v1::LOG_STREAM_STDOUT);
  chunk.set_offset(static_cast<uint64_t>(number) * kOutputPieceBytes);
  chunk.set_kept_from(chunk.offset());
  chunk.set_data(text);
  chunk.set_node(who.node);
  chunk.set_incarnation(1);
  chunk.set_time_us(common::WallMicros());
  chunk.set_end(number == kPiecesEach - 1);
  return chunk;
}

v1::MetricBatch Metrics(const Writing& who, int number) {
  auto batch = About<v1::MetricBatch>(who);
  batch.set_rank(who.rank);
  batch.set_source("socket");
  batch.set_seq(static_cast<uint64_t>(number) + 1);
  for (int point = 0; point < 10; ++point) {
    v1::MetricPoint& added = *batch.add_points();
    added.set_name(point % 2 == 0 ? "train/loss" : "train/lr");
    added.set_step(number * 10 + point);
    added.set_value(1.0 / (1 + number));
    added.set_time_ms(common::WallMicros() / 1000);
  }
  v1::MetricBatch upload;
  upload.set_encoded(batch.SerializeAsString());
  return upload;
}

v1::SampleBatch Samples(const Writing& who, int number) {
  auto batch = About<v1::SampleBatch>(who);
  batch.set_node(who.node);
  batch.set_time_ms(common::WallMicros() / 1000 + number * 1000LL);
  batch.set_interval_ms(1000);
  v1::RankSample& sample = *batch.add_ranks();
  sample.set_rank(who.rank);
  sample.set_cpu_cores(0.9f);
  sample.set_resident_bytes(1 << 30);
  sample.set_processes(1);
  sample.set_threads(8);
  sample.set_step(number);
  return batch;
}

}  // namespace

struct Writers::Parts {
  struct One {
    std::unique_ptr<Stub> stub;
    std::unique_ptr<Sender<v1::LogChunk, v1::LogAck>> output;
    std::unique_ptr<Sender<v1::MetricBatch, v1::MetricAck>> metrics;
    std::unique_ptr<Sender<v1::SampleBatch, v1::SampleReceipt>> samples;
  };
  Open open;
  std::vector<One> all;
};

Writers::Writers(const std::string& endpoint, const std::vector<Writing>& who)
    : parts_(std::make_unique<Parts>()) {
  grpc::ChannelArguments arguments;
  arguments.SetString("grpc.default_authority", "localhost");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  for (const Writing& each : who) {
    Parts::One& one = parts_->all.emplace_back();
    one.stub = v1::WorkerService::NewStub(
        grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments));
    one.output = std::make_unique<Sender<v1::LogChunk, v1::LogAck>>(
        &parts_->open, [each](int number) { return OutputPiece(each, number); },
        [](const v1::LogAck& ack) {
          return ack.durable_offset() > kPiecesEach * kOutputPieceBytes;
        });
    one.metrics = std::make_unique<Sender<v1::MetricBatch, v1::MetricAck>>(
        &parts_->open, [each](int number) { return Metrics(each, number); },
        [](const v1::MetricAck& ack) { return ack.durable_seq() == kPiecesEach; });
    one.samples = std::make_unique<Sender<v1::SampleBatch, v1::SampleReceipt>>(
        &parts_->open, [each](int number) { return Samples(each, number); }, nullptr);
  }
}

Writers::~Writers() = default;

bool Writers::Run() {
  parts_->open.Add(static_cast<int>(parts_->all.size()) * 3);
  for (Parts::One& one : parts_->all) {
    one.stub->async()->UploadLogs(one.output->context(), one.output.get());
    one.output->Begin();
    one.stub->async()->UploadMetrics(one.metrics->context(), one.metrics.get());
    one.metrics->Begin();
    one.stub->async()->UploadSamples(one.samples->context(), one.samples.get());
    one.samples->Begin();
  }
  return parts_->open.Wait();
}

}  // namespace muster::bench
