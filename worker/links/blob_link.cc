// blob_link: blocking calls with deadlines, on a separate connection.
#include "worker/links/blob_link.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/links/channel.h"

namespace muster::worker {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kCallDeadline{30'000};
constexpr milliseconds kStreamDeadline{300'000};  // a longer transfer resumes where it stopped
constexpr milliseconds kPauseFirst{50};
constexpr milliseconds kPauseMax{5'000};
constexpr int kDirectTries = 3;           // of a download from the object store, without a byte
constexpr milliseconds kPauseSlice{200};  // how soon a cancelled download is noticed

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

bool MayRetry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnknown(status) || absl::IsAborted(status);
}

}  // namespace

struct BlobLink::Parts {
  using Stub = v1::WorkerService::Stub;
  std::mutex mutex;
  std::condition_variable changed;
  Route route;  // guarded by mutex, as is everything below
  std::shared_ptr<Stub> stub;
  uint64_t moves = 0;  // of the route, to another address
  std::set<grpc::ClientContext*> running;
  bool stopped = false;
  ObjectLink objects;  // does its own locking

  // The stub, once an endpoint is known; null after Stop.
  std::shared_ptr<Stub> WaitForStub() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return stopped || stub != nullptr; });
    return stopped ? nullptr : stub;
  }
  // False after Stop.
  bool Begin(grpc::ClientContext* context, milliseconds deadline) {
    context->set_deadline(std::chrono::system_clock::now() + deadline);
    std::lock_guard<std::mutex> lock(mutex);
    if (stopped) return false;
    running.insert(context);
    return true;
  }
  void Finish(grpc::ClientContext* context) {
    std::lock_guard<std::mutex> lock(mutex);
    running.erase(context);
  }
  void CancelRunning() {
    for (grpc::ClientContext* context : running) context->TryCancel();
  }
  // Ends early when the route moves. False after Stop.
  bool Pause(milliseconds duration) {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t before = moves;
    changed.wait_for(lock, duration, [&] { return stopped || moves != before; });
    return !stopped;
  }
  // The same, but also ends when it is cancelled.
  void Pause(milliseconds duration, const std::function<bool()>& cancelled) {
    for (; duration > milliseconds(0) && !cancelled(); duration -= kPauseSlice) {
      if (!Pause(std::min(duration, kPauseSlice))) return;
    }
  }
};

BlobLink::BlobLink() : parts_(std::make_unique<Parts>()) {}
BlobLink::~BlobLink() = default;

void BlobLink::SetRoute(const Route& route) {
  std::lock_guard<std::mutex> lock(parts_->mutex);
  if (route == parts_->route) return;
  const bool moves = route.endpoint != parts_->route.endpoint;
  parts_->route = route;
  parts_->stub = v1::WorkerService::NewStub(MakeChannel(route, true));
  if (moves) {
    ++parts_->moves;
    parts_->CancelRunning();
  }
  parts_->changed.notify_all();
}

void BlobLink::Stop() {
  std::lock_guard<std::mutex> lock(parts_->mutex);
  parts_->stopped = true;
  parts_->objects.Stop();
  parts_->CancelRunning();
  parts_->changed.notify_all();
}

namespace {

using Stub = v1::WorkerService::Stub;

// Sends [offset, size) of the file; returns the coordinator's answer.
absl::StatusOr<v1::UploadBlobResponse> SendBytes(Stub& stub, grpc::ClientContext* context, int fd,
                                                 const Blob& blob, const AttemptKey& key,
                                                 uint64_t offset,
                                                 const std::function<void()>& progress) {
  v1::UploadBlobResponse response;
  auto writer = stub.UploadBlob(context, &response);
  v1::BlobChunk chunk;
  chunk.set_sha256(blob.sha256);
  chunk.set_size(blob.size);
  chunk.set_job(key.job);
  chunk.set_attempt(key.attempt);
  bool open = true;
  do {
    const size_t want = std::min<uint64_t>(common::kBlobChunkBytes, blob.size - offset);
    std::string data(want, '\0');
    const ssize_t count = pread(fd, data.data(), want, static_cast<off_t>(offset));
    if (count != static_cast<ssize_t>(want)) {
      context->TryCancel();
      writer->Finish();
      return absl::DataLossError("the file was truncated while it was being uploaded");
    }
    chunk.set_offset(offset);
    chunk.set_data(std::move(data));
    open = writer->Write(chunk);
    offset += want;
    if (open) progress();
    chunk.Clear();
  } while (open && offset < blob.size);
  if (open) writer->WritesDone();
  RETURN_IF_ERROR(FromGrpc(writer->Finish()));
  return response;
}

}  // namespace

absl::Status BlobLink::Upload(int fd, const Blob& blob, const AttemptKey& key,
                              const std::function<void()>& progress) {
  milliseconds pause = kPauseFirst;
  bool is_resent = false;
  ObjectUpload direct(parts_->objects, fd, blob);
  while (true) {
    const std::shared_ptr<Stub> stub = parts_->WaitForStub();
    if (stub == nullptr) return absl::CancelledError("the worker is stopping");
    v1::BeginUploadRequest request;
    request.set_sha256(blob.sha256);
    request.set_size(blob.size);
    request.set_job(key.job);
    request.set_attempt(key.attempt);
    request.set_direct(direct.IsPossible());
    request.set_sent(direct.IsSent());
    v1::BeginUploadResponse begun;
    absl::Status status;
    {
      grpc::ClientContext context;
      if (!parts_->Begin(&context, kCallDeadline)) continue;
      status = FromGrpc(stub->BeginUpload(&context, request, &begun));
      parts_->Finish(&context);
    }
    if (status.ok() && begun.have()) return absl::OkStatus();
    if (absl::IsDeadlineExceeded(status) && direct.MayStillEnd()) progress();
    if (status.ok() && begun.has_direct()) {
      status = direct.Send(begun.direct(), progress);
      if (status.ok()) {
        pause = kPauseFirst;
        continue;
      }
    } else if (status.ok()) {
      grpc::ClientContext context;
      if (!parts_->Begin(&context, kStreamDeadline)) continue;
      const auto answer =
          SendBytes(*stub, &context, fd, blob, key, std::min(begun.offset(), blob.size), progress);
      parts_->Finish(&context);
      if (answer.ok() && answer->complete()) return absl::OkStatus();
      status = answer.status();
      if (status.ok()) pause = kPauseFirst;  // part of it was accepted
      // A power failure at the coordinator may have damaged bytes that had arrived earlier, which it then
      // discards. If this file itself has changed, sending all of it once more shows that.
      if (absl::IsDataLoss(status) && begun.offset() > 0 && !std::exchange(is_resent, true))
        continue;
    }
    if (!status.ok() && !MayRetry(status)) return status;
    parts_->Pause(pause);
    pause = std::min(pause * 2, kPauseMax);
  }
}

absl::StatusOr<v1::CheckpointFiles> BlobLink::ListResumeFiles(
    const v1::ListResumeFilesRequest& request, size_t count,
    const std::function<bool()>& cancelled) {
  milliseconds pause = kPauseFirst;
  while (true) {
    const std::shared_ptr<Stub> stub = parts_->WaitForStub();
    if (stub == nullptr || cancelled()) return absl::CancelledError("stopped");
    grpc::ClientContext context;
    if (!parts_->Begin(&context, kStreamDeadline)) continue;
    auto reader = stub->ListResumeFiles(&context, request);
    v1::CheckpointFiles all, piece;
    const auto files = [&all] { return static_cast<size_t>(all.files_size()); };
    while (files() <= count && reader->Read(&piece)) all.MergeFrom(piece);
    if (files() > count) context.TryCancel();
    const absl::Status status = FromGrpc(reader->Finish());
    parts_->Finish(&context);
    if (absl::IsNotFound(status) || (status.ok() ? files() != count : files() > count)) {
      return absl::DataLossError(common::StrCat(
          "its list of ", count, " files no longer exists: ", std::string(status.message())));
    }
    if (status.ok()) return all;
    if (!MayRetry(status)) return status;
    parts_->Pause(pause);
    pause = std::min(pause * 2, kPauseMax);
  }
}

absl::Status BlobLink::Download(const Blob& blob, const AttemptKey& key, int fd,
                                const std::function<bool()>& cancelled,
                                const std::function<void(uint64_t)>& progress) {
  common::Sha256 hash;
  uint64_t offset = 0, fetched = 0;  // through the coordinator; from the object store
  int direct_tries = kDirectTries;
  milliseconds pause = kPauseFirst;
  while (offset < blob.size) {
    const std::shared_ptr<Stub> stub = parts_->WaitForStub();
    if (stub == nullptr || cancelled()) return absl::CancelledError("stopped");
    v1::DownloadBlobRequest request;
    request.set_sha256(blob.sha256);
    request.set_offset(offset);
    request.set_job(key.job);
    request.set_attempt(key.attempt);
    request.set_direct(offset == 0 && direct_tries > 0 && parts_->objects.IsUsable());
    grpc::ClientContext context;
    if (!parts_->Begin(&context, kStreamDeadline)) continue;
    auto reader = stub->DownloadBlob(&context, request);
    v1::BlobChunk chunk;
    absl::Status status;
    std::string url;
    while (status.ok() && reader->Read(&chunk)) {
      if (cancelled()) status = absl::AbortedError("stopped");
      if (request.direct() && !chunk.url().empty()) {
        url = chunk.url();
        continue;
      }
      if (chunk.offset() != offset || offset + chunk.data().size() > blob.size) {
        status = absl::DataLossError("the coordinator sent bytes that were not requested");
      }
      if (status.ok()) status = common::WriteAll(fd, chunk.data());
      if (!status.ok()) break;
      hash.Update(chunk.data());
      offset += chunk.data().size();
      pause = kPauseFirst;
      if (progress) progress(offset);
    }
    if (!status.ok()) context.TryCancel();
    const absl::Status ended = FromGrpc(reader->Finish());
    parts_->Finish(&context);
    if (!status.ok()) return status;  // from our own disk, or a broken peer
    if (ended.ok() && !url.empty()) {
      const uint64_t before = fetched;
      const absl::Status got =
          FetchObjectFile(parts_->objects, url, blob, fd, &fetched, cancelled, progress);
      if (!absl::IsUnavailable(got)) return got;
      if (fetched == before && --direct_tries == 0) parts_->objects.Avoid(got);
      parts_->Pause(pause, cancelled);
      continue;
    }
    if (absl::IsNotFound(ended)) {
      return absl::DataLossError(
          common::StrCat("the coordinator has lost it: ", std::string(ended.message())));
    }
    if (!ended.ok() && !MayRetry(ended)) return ended;
    if (offset < blob.size) parts_->Pause(pause, cancelled);
    pause = std::min(pause * 2, kPauseMax);
  }
  if (hash.FinishHex() != blob.sha256) {
    return absl::DataLossError("the bytes do not match their SHA-256");
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
