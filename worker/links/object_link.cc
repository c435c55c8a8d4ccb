#include "worker/links/object_link.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "common/files/byte_source.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;
using std::chrono::milliseconds;

constexpr int kStoreTries = 3;
constexpr milliseconds kStorePauseFirst{200};
constexpr int kOk = 200, kPartial = 206, kSlowDown = 429, kServerErrors = 500;
// limit: checkpoints: memory for parts of one file on their way to the object store; one part at a time, if it is larger
constexpr uint64_t kPartsBytesMax = 64 << 20;
// limit: checkpoints: parts of one file on their way to or from the object store at once
constexpr uint64_t kAtOnceMax = 4;
// limit: checkpoints: a part that a coordinator may ask for; refused
constexpr uint64_t kPartBytesMax = 1ull << 30;
constexpr uint64_t kRangeBytes = 8 << 20;
constexpr size_t kHashBytes = 1 << 20;

// Starts what it is given, at most so many at once, and remembers the first error.
class Window {
 public:
  explicit Window(uint64_t at_once) : at_once_(std::max<uint64_t>(1, at_once)) {}
  ~Window() { Drain(); }
  void WaitForRoom() {
    while (running_.size() >= at_once_) EndFirst();
  }
  absl::Status Add(std::function<absl::Status()> work) {
    WaitForRoom();
    if (status_.ok()) running_.push_back(Start(std::move(work)));
    return status_;
  }
  absl::Status Drain() {
    while (!running_.empty()) EndFirst();
    return status_;
  }
  // How many of the first have ended well.
  uint64_t Done() const { return done_; }

 private:
  static std::future<absl::Status> Start(std::function<absl::Status()> work) {
    try {
      return std::async(std::launch::async, work);
    } catch (const std::system_error&) {  // this machine has no thread left
      return std::async(std::launch::deferred, std::move(work));
    }
  }
  void EndFirst() {
    const absl::Status ended = running_.front().get();
    running_.pop_front();
    if (status_.ok() && ended.ok()) ++done_;
    if (status_.ok()) status_ = ended;
  }
  const uint64_t at_once_;
  uint64_t done_ = 0;
  std::deque<std::future<absl::Status>> running_;
  absl::Status status_;
};

absl::Status CheckParts(const v1::DirectUpload& asked, const Blob& blob) {
  bool is_sound = blob.size > 0 && asked.part_bytes() > 0 && asked.part_bytes() <= kPartBytesMax;
  uint32_t before = 0;
  for (const v1::DirectUpload::Part& part : asked.parts()) {
    is_sound = is_sound && part.number() > before &&
               (part.number() - 1) <= (blob.size - 1) / asked.part_bytes();
    before = part.number();
  }
  if (is_sound) return absl::OkStatus();
  return absl::UnavailableError("the coordinator asked for parts that the file does not have");
}

absl::Status HashOf(int fd, uint64_t size, const std::function<bool()>& cancelled,
                    std::string* hex) {
  common::Sha256 hash;
  std::string bytes;
  for (uint64_t offset = 0; offset < size; offset += bytes.size()) {
    if (cancelled()) return absl::CancelledError("stopped");
    bytes.resize(std::min<uint64_t>(kHashBytes, size - offset));
    if (pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes.size()))
      return absl::DataLossError("the file that was fetched cannot be read");
    hash.Update(bytes);
  }
  *hex = hash.FinishHex();
  return absl::OkStatus();
}

absl::Status WriteAt(int fd, std::string_view bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return common::ErrnoStatus("cannot write a fetched file");
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace

common::Transfers* ObjectLink::Opened() {
  if (!std::exchange(is_opened_, true)) {
    auto opened = common::Transfers::OpenForStore();
    if (opened.ok()) {
      transfers_ = *std::move(opened);
    } else {
      common::LogInfo(StrCat("checkpoints go through the coordinator reason=\"",
                             opened.status().message(), "\""));
    }
  }
  return transfers_.get();
}

bool ObjectLink::IsUsable() {
  std::lock_guard lock(mutex_);
  return std::chrono::steady_clock::now() >= avoided_until_ && Opened() != nullptr;
}

void ObjectLink::Avoid(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  avoided_until_ = std::chrono::steady_clock::now() + kAvoidedFor;
  common::LogWarning(StrCat(
      "the object store cannot be used from this node, so checkpoints go through the coordinator "
      "for now reason=\"",
      why.message(), "\" fix=\"let this node reach the store's address\""));
}

absl::Status ObjectLink::Put(const std::string& url, std::string_view bytes) {
  return Run({.method = "PUT",
              .url = url,
              .body = bytes,
              .within = std::chrono::seconds(60 + bytes.size() / kSlowestBytesPerS)},
             [](const common::TransferAnswer& answer) { return answer.status == kOk; });
}

absl::Status ObjectLink::Get(const std::string& url, uint64_t offset, uint64_t size, int fd) {
  uint64_t at = offset;
  absl::Status written;  // of our own disk
  const auto is_range = [](const common::TransferAnswer& answer) {
    // Not its status tells, with some stores.
    return answer.status == kPartial ||
           (answer.status == kOk && !answer.Header("content-range").empty());
  };
  common::Transfer get{.url = url,
                       .headers = {{"range", StrCat("bytes=", offset, "-", offset + size - 1)}},
                       .within = std::chrono::seconds(60 + size / kSlowestBytesPerS)};
  get.is_sunk = [&](const common::TransferAnswer& answer) {
    at = offset;  // of another try
    return is_range(answer);
  };
  get.sink = [&](std::string_view bytes) -> absl::Status {
    if (bytes.size() > offset + size - at)
      return absl::UnavailableError("the object store sent more than was asked for");
    written = WriteAt(fd, bytes, at);
    at += bytes.size();
    return written;
  };
  const absl::Status got = Run(get, is_range);
  RETURN_IF_ERROR(written);
  RETURN_IF_ERROR(got);
  if (at == offset + size) return absl::OkStatus();
  return absl::UnavailableError(
      StrCat("the object store sent ", at - offset, " of ", size, " bytes"));
}

absl::Status ObjectLink::Run(const common::Transfer& transfer,
                             const std::function<bool(const common::TransferAnswer&)>& is_done) {
  common::Transfers* transfers = nullptr;
  {
    std::lock_guard lock(mutex_);
    transfers = Opened();
  }
  if (transfers == nullptr) return absl::UnavailableError("there is no libcurl on this node");
  milliseconds pause = kStorePauseFirst;
  for (int tried = 1;; ++tried) {
    if (stopped_) return absl::CancelledError("the worker is stopping");
    const auto answer = transfers->Run(transfer, &stopped_);
    if (answer.ok() && is_done(*answer)) return absl::OkStatus();
    const bool may_pass = answer.ok()
                              ? answer->status >= kServerErrors || answer->status == kSlowDown
                              : absl::IsUnavailable(answer.status());
    if (!may_pass || tried == kStoreTries) {
      // Whatever it is, the coordinator may have a way.
      if (!answer.ok()) return absl::UnavailableError(answer.status().message());
      return absl::UnavailableError(StrCat(transfer.method, " ", common::WithoutQuery(transfer.url),
                                           ": the object store answered ", answer->status));
    }
    std::this_thread::sleep_for(pause);
    pause *= 4;
  }
}

absl::Status ObjectUpload::Send(const v1::DirectUpload& parts,
                                const std::function<void()>& progress) {
  RETURN_IF_ERROR(CheckParts(parts, blob_));
  if (std::exchange(is_sent_, false)) ++fruitless_;
  int taken = 0;
  absl::Status sent = SendParts(parts, progress, &taken);
  if (sent.ok() && !parts.more()) sent = CheckHash(progress);
  if (sent.ok() || absl::IsDataLoss(sent) || link_.IsStopped()) return sent;
  if (taken == 0 && ++fruitless_ == kFruitlessMax) link_.Avoid(sent);
  return absl::UnavailableError(sent.message());
}

absl::Status ObjectUpload::SendParts(const v1::DirectUpload& parts,
                                     const std::function<void()>& progress, int* taken) {
  std::atomic<int> done = 0;
  absl::Status read;
  Window window(std::min(kAtOnceMax, kPartsBytesMax / parts.part_bytes()));
  for (const v1::DirectUpload::Part& part : parts.parts()) {
    const uint64_t offset = (part.number() - 1) * parts.part_bytes();
    window.WaitForRoom();
    auto bytes =
        std::make_shared<std::string>(std::min(parts.part_bytes(), blob_.size - offset), '\0');
    read = HashTo(offset, progress);
    if (read.ok()) read = Read(offset, bytes.get());
    if (!read.ok()) break;
    const absl::Status going = window.Add([this, bytes, &done, &progress, url = part.url()] {
      const absl::Status put = link_.Put(url, *bytes);
      if (put.ok()) ++done;
      progress();
      return put;
    });
    if (!going.ok()) break;
    progress();
  }
  const absl::Status sent = window.Drain();
  *taken = done;
  return read.ok() ? sent : read;
}

absl::Status ObjectUpload::HashTo(uint64_t offset, const std::function<void()>& progress) {
  if (offset < hashed_) {
    hash_.reset();
    hashed_ = 0;
  }
  std::string bytes;
  while (hashed_ < offset) {
    if (link_.IsStopped()) return absl::CancelledError("the worker is stopping");
    bytes.resize(std::min<uint64_t>(kHashBytes, offset - hashed_));
    RETURN_IF_ERROR(Read(hashed_, &bytes));
    progress();
  }
  return absl::OkStatus();
}

absl::Status ObjectUpload::Read(uint64_t offset, std::string* bytes) {
  const common::FileRange range{fd_, offset, bytes->size()};
  for (size_t got = 0; got < bytes->size();) {
    const absl::StatusOr<size_t> count =
        common::CopyFrom(range, got, bytes->data() + got, bytes->size() - got);
    if (!count.ok())
      return absl::DataLossError("the file was truncated while it was being uploaded");
    got += *count;
  }
  if (!hash_.has_value()) hash_.emplace();
  hash_->Update(*bytes);
  hashed_ += bytes->size();
  return absl::OkStatus();
}

absl::Status ObjectUpload::CheckHash(const std::function<void()>& progress) {
  RETURN_IF_ERROR(HashTo(blob_.size, progress));
  const std::string found = hash_->FinishHex();
  hash_.reset();
  hashed_ = 0;
  if (found != blob_.sha256)
    return absl::DataLossError("the file changed while it was being uploaded");
  is_sent_ = true;
  return absl::OkStatus();
}

absl::Status FetchObjectFile(ObjectLink& link, const std::string& url, const Blob& blob, int fd,
                             uint64_t* done, const std::function<bool()>& cancelled,
                             const std::function<void(uint64_t)>& progress) {
  Window window(kAtOnceMax);
  const uint64_t begin = *done;
  for (uint64_t offset = begin; offset < blob.size; offset += kRangeBytes) {
    const uint64_t size = std::min(kRangeBytes, blob.size - offset);
    const absl::Status going =
        window.Add([&link, &url, offset, size, fd] { return link.Get(url, offset, size, fd); });
    if (!going.ok() || cancelled()) break;
    if (progress) progress(begin + window.Done() * kRangeBytes);
  }
  const absl::Status fetched = window.Drain();
  *done = std::min(begin + window.Done() * kRangeBytes, blob.size);
  if (cancelled()) return absl::CancelledError("stopped");
  RETURN_IF_ERROR(fetched);
  std::string found;
  RETURN_IF_ERROR(HashOf(fd, blob.size, cancelled, &found));
  if (found != blob.sha256) return absl::DataLossError("the bytes do not match their SHA-256");
  if (progress) progress(blob.size);
  return absl::OkStatus();
}

}  // namespace muster::worker
