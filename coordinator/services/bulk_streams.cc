#include "coordinator/services/bulk_streams.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/gates/job_gate.h"
#include "coordinator/gates/reach.h"
#include "coordinator/gates/sample_checks.h"
#include "coordinator/gates/sample_gate.h"
#include "coordinator/services/streams.h"
#include "coordinator/store_parts/upload_checks.h"

namespace muster::coordinator {
namespace {

// Bytes of one stream that may be waiting for their store.
constexpr size_t kUnderWayBytesMax = 4 << 20;
// Acknowledgements that a worker has not read; a healthy one has none waiting.
constexpr size_t kUnreadAcksBytesMax = 4 << 20;
// After the client half-closes, acknowledgements for the last sync may still be sent.
constexpr std::chrono::milliseconds kLastAcksWithin{400};

// Shared by logs and metrics: credits, the gate, late acknowledgements. `Uploader` is the store's
// side.
template <typename In, typename Ack, typename Uploader>
class UploadStream : public DuplexStream<In, Ack>, public Uploader {
 public:
  UploadStream(Daemon& daemon, NodeIdentity caller) : daemon_(daemon), caller_(std::move(caller)) {}

  void Consumed(size_t bytes) override {
    bool read_next = false;
    {
      std::lock_guard lock(mutex_);
      under_way_ -= bytes;
      read_next = paused_ && under_way_ < kUnderWayBytesMax / 2;
      if (read_next) paused_ = false;
    }
    if (read_next) this->ReadNext();
  }
  void Acknowledge(const Ack& ack) override {
    if (this->Bytes() > kUnreadAcksBytesMax) {
      return this->EnqueueClose(
          common::MakeProblem(absl::StatusCode::kResourceExhausted,
                              {.code = "JC1308",
                               .what = "the client does not read the acknowledgements",
                               .fix = "reconnect and read them"}));
    }
    this->Enqueue(ack);
  }
  // A worker resends on a new stream whatever is not acknowledged.
  void SendAgain() override {
    this->EnqueueClose(common::MakeProblem(
        absl::StatusCode::kUnavailable,
        {.code = "JC1626",
         .what = "the coordinator could not keep some of the unacknowledged data",
         .why = "a file of a job failed",
         .fix = "send it again on a new stream"}));
  }

 protected:
  // OK, or why the message cannot be valid. May decode it.
  virtual absl::Status Check(In& message) const = 0;
  virtual void Store(In message) = 0;
  // The sender of this message. nullopt: it contradicts the caller's certificate.
  virtual std::optional<NodeIdentity> SenderOf(const In& message) const = 0;

  Daemon& daemon_;
  const NodeIdentity caller_;

 private:
  void OnMessage(In message) final {
    const absl::Status status = Check(message);
    {
      std::lock_guard lock(mutex_);
      under_way_ += message.ByteSizeLong();
    }
    // An invalid message fails only its own stream: other ranks share this connection.
    if (!status.ok()) {
      daemon_.traffic.refusals.Warn(std::string(status.message()));
      Refuse(message);
      return MaybeReadNext();
    }
    const std::optional<NodeIdentity> sender = SenderOf(message);
    if (!sender.has_value()) {
      RefuseForeign(message, caller_);
      return MaybeReadNext();
    }
    auto self = this->shared_from_this();
    const JobGate::Subject subject{
        .job = message.job(), .attempt = message.attempt(), .rank = message.rank()};
    daemon_.gates.jobs.Check(
        daemon_.jobs, daemon_.process, *sender, subject,
        [self, this, sender, message = std::move(message)](JobGate::Verdict verdict) mutable {
          switch (verdict) {
            case JobGate::Verdict::kMay:
              Store(std::move(message));
              break;
            case JobGate::Verdict::kUnknown:
              Refuse(message);
              break;
            case JobGate::Verdict::kNotItsOwn:
              RefuseForeign(message, *sender);
              break;
          }
          MaybeReadNext();
        });
  }

  void RefuseForeign(const In& message, const NodeIdentity& sender) {
    constexpr bool kIsLog = std::is_same_v<In, v1::LogChunk>;
    TellDenied(daemon_.traffic,
               {kIsLog ? Denied::kLogs : Denied::kMetrics,
                common::StrCat(kIsLog ? "output" : "metrics", " of job ", message.job(),
                               " attempt ", message.attempt(), " rank ", message.rank(),
                               " refused: not assigned to ", Describe(sender))});
    Refuse(message);
  }

  void Refuse(const In& message) {
    Ack ack;
    ack.set_job(message.job());
    ack.set_attempt(message.attempt());
    ack.set_rank(message.rank());
    if constexpr (std::is_same_v<In, v1::LogChunk>) {
      ack.set_stream(message.stream());
    } else {
      ack.set_source(message.source().substr(0, kMetricSourceBytesMax));
    }
    ack.set_refused(true);
    Acknowledge(ack);
    std::lock_guard lock(mutex_);
    under_way_ -= message.ByteSizeLong();
  }

  void MaybeReadNext() {
    {
      std::lock_guard lock(mutex_);
      paused_ = under_way_ >= kUnderWayBytesMax;
      if (paused_) return;
    }
    this->ReadNext();
  }

  void OnHalfClose() final {
    daemon_.process.pool.PostAfter(kLastAcksWithin, [self = this->shared_from_this(), this] {
      this->EnqueueClose(absl::OkStatus());
    });
  }
  void OnGone() final {}

  std::mutex mutex_;  // guards what follows
  size_t under_way_ = 0;
  bool paused_ = false;
};

class LogUpload final : public UploadStream<v1::LogChunk, v1::LogAck, LogUploader> {
 public:
  using UploadStream::UploadStream;

 private:
  absl::Status Check(v1::LogChunk& chunk) const override { return CheckLogChunk(chunk); }
  void Store(v1::LogChunk chunk) override {
    daemon_.stores.logs.Append(std::move(chunk),
                               std::static_pointer_cast<LogUpload>(shared_from_this()));
  }
  std::optional<NodeIdentity> SenderOf(const v1::LogChunk& chunk) const override {
    NodeIdentity sender = caller_;
    if (sender.is_certified && !chunk.node().empty() && chunk.node() != sender.node)
      return std::nullopt;
    if (!sender.is_certified) sender.node = chunk.node();
    if (chunk.incarnation() != 0) sender.incarnation = chunk.incarnation();
    return sender;
  }
};

class MetricUpload final : public UploadStream<v1::MetricBatch, v1::MetricAck, MetricUploader> {
 public:
  using UploadStream::UploadStream;

 private:
  absl::Status Check(v1::MetricBatch& batch) const override {
    RETURN_IF_ERROR(DecodeMetricBatch(batch));
    // The store decides how far ahead seq may be, because it knows the newest one.
    return CheckMetricBatch(batch);
  }
  void Store(v1::MetricBatch batch) override {
    daemon_.stores.metrics.Append(std::move(batch),
                                  std::static_pointer_cast<MetricUpload>(shared_from_this()));
  }
  std::optional<NodeIdentity> SenderOf(const v1::MetricBatch&) const override { return caller_; }
};

// One batch at a time; a refused batch is only logged, and nothing is acknowledged.
class SampleUpload final : public DuplexStream<v1::SampleBatch, v1::SampleReceipt> {
 public:
  SampleUpload(Daemon& daemon, NodeIdentity caller) : daemon_(daemon), caller_(std::move(caller)) {}

 private:
  void OnMessage(v1::SampleBatch batch) override {
    const uint64_t job = batch.job();
    const uint32_t attempt = batch.attempt();
    const std::string node = batch.node();
    if (caller_.is_certified && node != caller_.node) {
      RefuseForeign(job, attempt);
      return ReadNext();
    }
    daemon_.gates.samples.Find(
        daemon_.jobs, daemon_.process, job, attempt, node,
        [self = shared_from_this(), this, job, attempt, batch = std::move(batch)](
            SampleGate::Verdict verdict, const auto& part) mutable {
          if (verdict == SampleGate::Verdict::kNotItsOwn) RefuseForeign(job, attempt);
          if (part != nullptr) Take(std::move(batch), *part);
          ReadNext();
        });
  }
  // A caller without a certificate may be any program that probes, so it is only counted.
  void RefuseForeign(uint64_t job, uint32_t attempt) {
    if (!caller_.is_certified) return daemon_.traffic.denied.Add(Denied::kSamples);
    TellDenied(daemon_.traffic,
               {Denied::kSamples, common::StrCat("samples of job ", job, " attempt ", attempt,
                                                 " refused: they are not of ", Describe(caller_))});
  }
  void Take(v1::SampleBatch batch, const SampledPart& part) {
    const absl::Status valid = CheckSampleBatch(batch, part);
    if (!valid.ok()) return daemon_.traffic.refusals.Warn(std::string(valid.message()));
    daemon_.stores.samples.Append(std::move(batch));
  }
  void OnHalfClose() override { EnqueueClose(absl::OkStatus()); }
  void OnGone() override {}

  Daemon& daemon_;
  const NodeIdentity caller_;
};

// Uploads one file's bytes, one chunk at a time on the pool.
class BlobUpload final : public grpc::ServerReadReactor<v1::BlobChunk> {
 public:
  BlobUpload(Daemon& daemon, Caller caller, CallBudget::Hold hold, v1::UploadBlobResponse* response)
      : daemon_(daemon), caller_(std::move(caller)), hold_(std::move(hold)), response_(response) {
    StartRead(&chunk_);
  }

 private:
  // The next chunk arrives while one is written.
  void OnReadDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      if (is_busy_) {
        waiting_ = ok;
        return;
      }
      is_busy_ = true;
    }
    Take(ok);
  }
  void Take(bool ok) {
    if (!ok) return Post([this] { End(); });
    if (!file_.sha256.empty()) return Post([this] { Write(); });
    file_ = {.owner = UploadOwner(caller_, chunk_.job(), chunk_.attempt()),
             .sha256 = chunk_.sha256(),
             .size = chunk_.size(),
             .offset = chunk_.offset()};
    proof_owner_ = ProofOwner(NodeOf(caller_), chunk_.job(), chunk_.attempt());
    CheckTransfer(daemon_.jobs, daemon_.gates, daemon_.traffic, daemon_.process, NodeOf(caller_),
                  chunk_.job(), chunk_.attempt(), [this](absl::Status may) {
                    if (may.ok()) return Post([this] { Open(); });
                    Close(may);
                  });
  }
  void Open() {
    const absl::StatusOr<bool> is_here =
        KeepProven(daemon_.stores.blobs, proof_owner_, chunk_.job(), file_.sha256, file_.size);
    if (!is_here.ok()) return Close(is_here.status());
    if (*is_here) return Write();
    // Even if others have uploaded the same file: by sending it, a worker proves that it has the
    // bytes.
    absl::StatusOr<std::unique_ptr<Blobs::Upload>> opened = daemon_.stores.blobs.OpenUpload(file_);
    // The part that had arrived was removed after the worker asked, so it has to ask again.
    if (absl::IsOutOfRange(opened.status()))
      return Close(absl::AbortedError(opened.status().message()));
    if (!opened.ok()) return Close(opened.status());
    upload_ = *std::move(opened);
    CatchUp();
  }
  // Catches up one piece per turn, so that other uploads are written in between.
  void CatchUp() {
    const absl::StatusOr<bool> caught_up = upload_->CatchUp();
    if (!caught_up.ok()) return Close(caught_up.status());
    if (*caught_up) return Write();
    Post([this] { CatchUp(); });
  }
  void Write() {
    if (chunk_.offset() != file_.offset) {
      return Close(absl::OutOfRangeError(
          common::StrCat("a piece of ", file_.sha256, " at ", chunk_.offset(),
                         " does not follow byte ", file_.offset, "; fix: restart the upload")));
    }
    const v1::BlobChunk chunk = std::exchange(chunk_, v1::BlobChunk());
    StartRead(&chunk_);
    if (upload_ != nullptr) {
      if (const absl::Status written = upload_->Append(chunk.data()); !written.ok())
        return Close(written);
    }
    file_.offset += chunk.data().size();
    Written();
  }
  void Written() {
    bool ok = false;
    {
      std::lock_guard lock(mutex_);
      is_busy_ = waiting_.has_value();
      if (!is_busy_) return;
      ok = *std::exchange(waiting_, std::nullopt);
    }
    Take(ok);
  }
  // All chunks arrived, or the stream broke: in both cases the received bytes are kept.
  void End() {
    if (file_.sha256.empty()) return Close(absl::InvalidArgumentError("an upload without chunks"));
    const bool is_whole = upload_ == nullptr || file_.offset == file_.size;
    absl::Status kept;
    if (upload_ != nullptr) kept = is_whole ? upload_->Commit() : upload_->Sync();
    if (upload_ != nullptr && is_whole && kept.ok() && !proof_owner_.empty())
      kept = daemon_.stores.blobs.Prove(proof_owner_, file_.sha256);
    response_->set_complete(is_whole);
    response_->set_durable_offset(is_whole ? file_.size : file_.offset);
    Close(kept);
  }
  // Close the file before the worker learns of the error and tries again. What still arrives is dropped: this stays busy.
  void Close(const absl::Status& status) {
    upload_.reset();
    Finish(ToGrpc(status));
  }
  template <typename Work>
  void Post(Work work) {
    daemon_.process.files.Post(std::move(work));
  }
  void OnDone() override { delete this; }

  Daemon& daemon_;
  const Caller caller_;
  const CallBudget::Hold hold_;
  v1::UploadBlobResponse* const response_;
  std::mutex mutex_;
  bool is_busy_ = false;         // with a chunk or the end
  std::optional<bool> waiting_;  // what was read meanwhile: a chunk, or false: the end
  v1::BlobChunk chunk_;
  Blobs::OpenedUpload file_;  // its offset: of the next byte
  std::string proof_owner_;
  std::unique_ptr<Blobs::Upload>
      upload_;  // null: the store has the file already, and arriving bytes are dropped
};

template <typename Stream>
Stream* BeginStream(Daemon& daemon, const Caller& caller, CallBudget::Hold hold) {
  auto stream = std::make_shared<Stream>(daemon, NodeOf(caller));
  stream->Keep(std::move(hold));
  stream->Begin();
  return stream.get();
}

}  // namespace

grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* BeginLogUpload(Daemon& daemon,
                                                                  const Caller& caller,
                                                                  CallBudget::Hold hold) {
  return BeginStream<LogUpload>(daemon, caller, std::move(hold));
}

grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* BeginMetricUpload(Daemon& daemon,
                                                                           const Caller& caller,
                                                                           CallBudget::Hold hold) {
  return BeginStream<MetricUpload>(daemon, caller, std::move(hold));
}

grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* BeginSampleUpload(
    Daemon& daemon, const Caller& caller, CallBudget::Hold hold) {
  return BeginStream<SampleUpload>(daemon, caller, std::move(hold));
}

grpc::ServerReadReactor<v1::BlobChunk>* BeginBlobUpload(Daemon& daemon, const Caller& caller,
                                                        CallBudget::Hold hold,
                                                        v1::UploadBlobResponse* response) {
  return new BlobUpload(daemon, caller, std::move(hold), response);
}

}  // namespace muster::coordinator
