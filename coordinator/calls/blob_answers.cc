#include "coordinator/calls/blob_answers.h"

#include <mutex>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/direct_uploads.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Sends one blob piece by piece, as fast as the client reads it.
class BlobFeed : public std::enable_shared_from_this<BlobFeed> {
 public:
  BlobFeed(JobStores& stores, Process& process, std::shared_ptr<Sink<v1::BlobChunk>> sink,
           const WantedBlob& wanted)
      : stores_(stores),
        process_(process),
        sink_(std::move(sink)),
        job_(wanted.job),
        sha256_(wanted.sha256),
        offset_(wanted.offset) {}

  void Start() {
    sink_->Observe([self = shared_from_this()] { self->Wake(); }, [] {});
    Wake();
  }

 private:
  void Wake() {
    {
      std::lock_guard lock(mutex_);
      if (over_ || std::exchange(sending_, true)) return;
    }
    process_.files.Post([self = shared_from_this()] { self->Send(); });
  }

  void Send() {
    absl::Status status = SendSome();
    if (IsShortage(status))
      status = BlobNotReadableNow(StrCat("checkpoint file ", sha256_), status);
    bool has_room = false;
    {
      std::lock_guard lock(mutex_);
      sending_ = false;
      over_ = !status.ok() || offset_ >= size_;
      if (over_) return sink_->Close(status);
      has_room = sink_->QueuedBytes() < Sink<v1::BlobChunk>::kFullBytes;
    }
    if (has_room && !sink_->Gone()) Wake();
  }

  absl::Status SendSome() {
    ASSIGN_OR_RETURN(size_, stores_.blobs.Size(sha256_, job_));
    if (offset_ > size_) {
      return absl::OutOfRangeError(
          StrCat("offset ", offset_, " is past the end of the file (", size_, " bytes)"));
    }
    do {
      ASSIGN_OR_RETURN(std::string bytes,
                       stores_.blobs.Read(sha256_, offset_, common::kBlobChunkBytes, job_));
      if (bytes.empty() && offset_ < size_) return absl::DataLossError("the blob was truncated");
      v1::BlobChunk chunk;
      chunk.set_sha256(sha256_);
      chunk.set_size(size_);
      chunk.set_offset(offset_);
      offset_ += bytes.size();
      chunk.set_data(std::move(bytes));
      sink_->Write(std::move(chunk));
    } while (offset_ < size_ && sink_->QueuedBytes() < Sink<v1::BlobChunk>::kFullBytes);
    return absl::OkStatus();
  }

  JobStores& stores_;
  Process& process_;
  const std::shared_ptr<Sink<v1::BlobChunk>> sink_;
  const uint64_t job_;
  const std::string sha256_;
  uint64_t offset_;  // only used by the active sender
  uint64_t size_ = 0;

  std::mutex mutex_;  // guards what follows
  bool sending_ = false;
  bool over_ = false;
};

}  // namespace

absl::Status BlobNotReadableNow(const std::string& what, const absl::Status& shortage) {
  return common::MakeProblem(absl::StatusCode::kAborted,
                             {.code = "JC1507",
                              .what = StrCat(what, " cannot be read now"),
                              .why = std::string(shortage.message()),
                              .fix = "try again later; nothing was marked as damaged"});
}

void SendBlob(JobStores& stores, Process& process, const WantedBlob& wanted,
              std::shared_ptr<Sink<v1::BlobChunk>> sink) {
  std::make_shared<BlobFeed>(stores, process, std::move(sink), wanted)->Start();
}

void SendOrSign(JobStores& stores, Process& process, const WantedBlob& wanted,
                const std::shared_ptr<Sink<v1::BlobChunk>>& sink) {
  if (stores.direct == nullptr || !wanted.may_be_url)
    return SendBlob(stores, process, wanted, sink);
  const auto sign = [&stores, &process, wanted, sink] {
    const absl::StatusOr<PresignedUrl> url = stores.direct->UrlOf(wanted.job, wanted.sha256);
    if (!url.ok()) return SendBlob(stores, process, wanted, sink);
    v1::BlobChunk chunk;
    chunk.set_sha256(wanted.sha256);
    chunk.set_url(url->url);
    sink->Write(std::move(chunk));
    sink->Close(absl::OkStatus());
  };
  process.objects.Post(sign, wanted.owner);
}

}  // namespace muster::coordinator
