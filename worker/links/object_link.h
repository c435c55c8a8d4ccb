// Checkpoint bytes between this node and the cluster's object store, past the coordinator, which has signed the URLs
// that this is given. Blocks: used by transfer threads only; any thread, several at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/hash/sha256.h"
#include "common/http/transfers.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

struct Blob {
  std::string sha256;
  uint64_t size = 0;
};

class ObjectLink {
 public:
  // What the store cannot do now goes through the coordinator for this long.
  static constexpr std::chrono::minutes kAvoidedFor{5};
  // A slower transfer is given up.
  static constexpr uint64_t kSlowestBytesPerS = 128 * 1024;

  // True: libcurl is installed here, and the store was not out of reach lately.
  bool IsUsable();
  // It cannot be reached from this node.
  void Avoid(const absl::Status& why);
  // Every call, current and future, ends with an error soon.
  void Stop() { stopped_ = true; }
  bool IsStopped() const { return stopped_; }

  // Tries a few times. UNAVAILABLE, without the URL's query in its text: ask the coordinator for another URL.
  absl::Status Put(const std::string& url, std::string_view bytes);
  // Writes these bytes of the object to the same place of the file. Likewise; else the file's own error.
  absl::Status Get(const std::string& url, uint64_t offset, uint64_t size, int fd);

 private:
  using Time = std::chrono::steady_clock::time_point;
  common::Transfers* Opened();  // null: there is no libcurl. The mutex is held
  absl::Status Run(const common::Transfer& transfer,
                   const std::function<bool(const common::TransferAnswer&)>& is_done);

  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  // guards what follows
  bool is_opened_ = false;
  std::unique_ptr<common::Transfers> transfers_;  // set once
  Time avoided_until_ = {};
};

// One file on its way to the object store, part by part. What is sent is hashed as it is read.
class ObjectUpload {
 public:
  // Both outlive this.
  ObjectUpload(ObjectLink& link, int fd, const Blob& blob) : link_(link), fd_(fd), blob_(blob) {}

  // What the next BeginUpload says (worker_service.proto).
  bool IsPossible() const { return fruitless_ < kFruitlessMax && link_.IsUsable(); }
  bool IsSent() const { return is_sent_; }
  // Whether the upload's end may still be under way at the store, for a while: it copies large objects.
  bool MayStillEnd() { return is_sent_ && ends_asked_++ < kEndsAskedMax; }

  // Sends these parts, several at once, and calls `progress` for each. OK: ask again. DATA_LOSS: the file is not what
  // its hash says. UNAVAILABLE: ask again, later.
  absl::Status Send(const v1::DirectUpload& parts, const std::function<void()>& progress);

 private:
  // Rounds without one part that was taken, or after which the store lacked what it had taken.
  static constexpr int kFruitlessMax = 5;
  static constexpr int kEndsAskedMax = 10;
  absl::Status SendParts(const v1::DirectUpload& parts, const std::function<void()>& progress,
                         int* taken);
  // Hashes on to this offset; from the beginning if it lies behind. `progress`: for each piece.
  absl::Status HashTo(uint64_t offset, const std::function<void()>& progress);
  // Hashes as well: call HashTo(offset) before.
  absl::Status Read(uint64_t offset, std::string* bytes);
  absl::Status CheckHash(const std::function<void()>& progress);

  ObjectLink& link_;
  const int fd_;
  const Blob& blob_;
  std::optional<common::Sha256> hash_;  // of the first `hashed_` bytes; none: of no byte
  uint64_t hashed_ = 0;
  bool is_sent_ = false;
  int fruitless_ = 0;
  int ends_asked_ = 0;
};

// The object's bytes from `*done` on into the file, which can be read as well, several ranges at once; then verifies all
// of them. `*done`: moves on with what is there. `cancelled` and `progress` as of BlobLink's Download. UNAVAILABLE: ask
// for another URL; DATA_LOSS: they are not what the hash says.
absl::Status FetchObjectFile(ObjectLink& link, const std::string& url, const Blob& blob, int fd,
                             uint64_t* done, const std::function<bool()>& cancelled,
                             const std::function<void(uint64_t)>& progress);

}  // namespace muster::worker
