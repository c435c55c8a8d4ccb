// Checkpoint files by their SHA-256: resumable uploads into uploads/, verified, synced and renamed
// into blobs/. Blocks on the disk: called on the work pool's threads. Uploads of the same bytes may
// run side by side: they write the same file, and only a matching hash puts it into place.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/file_age.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

class BlobStore {
 public:
  // A part that nobody has written to for so long, or a blob that nothing came to refer to, is
  // removed.
  static constexpr std::chrono::hours kUnusedKept{24};
  // How long after BeginUpload or its end a blob is safe from removal: its checkpoint may be about
  // to be recorded.
  static constexpr std::chrono::minutes kPromiseKept{10};

  static constexpr uint64_t kBlobBytesMax = 1ull << 43;  // of one checkpoint file

  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(const Paths& paths);

  struct Place {
    bool have = false;
    uint64_t offset = 0;  // else: send from here
  };
  // INVALID_ARGUMENT: not a hash, or more bytes than a file may have.
  absl::StatusOr<Place> Begin(const std::string& sha256, uint64_t size);
  // OUT_OF_RANGE: behind what is there; begin again. RESOURCE_EXHAUSTED: disk full.
  absl::Status Write(const std::string& sha256, uint64_t size, uint64_t offset,
                     std::string_view data);
  // Syncs what was written. True: all bytes are here, match the hash and are in place. DATA_LOSS:
  // they do not match, and the upload was thrown away.
  absl::StatusOr<bool> Finish(const std::string& sha256, uint64_t size);
  // How far an upload has come.
  uint64_t Received(const std::string& sha256);

  // At most `max` bytes; shorter only at the end. NOT_FOUND.
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset, size_t max) const;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const;
  // OK when the bytes still match their name.
  absl::Status Verify(const std::string& sha256) const;

  // Deletes it unless an upload was promised or finished lately (it may be about to be referred
  // to). True: it is gone.
  bool RemoveUnlessPromised(const std::string& sha256);
  // Blobs older than kUnusedKept, for the caller to check against what is referred to; deletes
  // stale parts.
  std::vector<std::string> OldBlobs();

 private:
  using Time = std::chrono::steady_clock::time_point;
  explicit BlobStore(const Paths& paths) : paths_(paths) {}
  void Promise(const std::string& sha256);

  const FileAge age_;

  const Paths paths_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Time> promised_;
  size_t prune_at_ = 1'024;  // so many promises before the old ones are looked for
};

}  // namespace muster::coordinator
