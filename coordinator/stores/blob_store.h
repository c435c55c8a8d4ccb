// Checkpoint files and objects of jobs' code by their SHA-256: an upload is resumed where it stopped,
// and a file is there only whole, durable and with the hash that names it.
//
// Any thread; may be slow or remote: called on the work pools' threads. Uploads of the same bytes
// may run side by side.
//
// Workers' uploads help each other: what one has sent, no other needs to send. The uploads of an
// owner (OpenUpload) know nothing of anybody else's, so that none can find out what others have.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

class BlobStore {
 public:
  // An upload that nobody has written to for so long, or a blob that nothing came to refer to, is
  // removed.
  static constexpr std::chrono::hours kUnusedKept{24};
  static constexpr uint64_t kBlobBytesMax = 1ull << 43;  // of one checkpoint file

  virtual ~BlobStore() = default;

  struct Place {
    bool have = false;
    uint64_t offset = 0;  // else: send from here
  };
  // INVALID_ARGUMENT: not a hash, or more bytes than a file may have.
  virtual absl::StatusOr<Place> Begin(const std::string& sha256, uint64_t size) = 0;
  // Bytes that are here already are overwritten by the same. OUT_OF_RANGE: behind what is there;
  // begin again. RESOURCE_EXHAUSTED: no room.
  virtual absl::Status Write(const std::string& sha256, uint64_t size, uint64_t offset,
                             std::string_view data) = 0;
  // Makes durable what was written. True: all bytes are here, match the hash and are in place;
  // false: some are missing. DATA_LOSS: they do not match, and the upload was thrown away.
  virtual absl::StatusOr<bool> Finish(const std::string& sha256, uint64_t size) = 0;
  // How far an upload has come.
  virtual uint64_t Received(const std::string& sha256) = 0;

  // Of an owner, one thread at a time. What has arrived stays when it is destroyed.
  class Upload {
   public:
    virtual ~Upload() = default;
    // Reads a piece of what had arrived before, for the hash. True: all of it; from then on Append.
    virtual absl::StatusOr<bool> CatchUp() = 0;
    // RESOURCE_EXHAUSTED: no room.
    virtual absl::Status Append(std::string_view data) = 0;
    // All bytes were appended: makes them durable under their name. DATA_LOSS: they do not match, and
    // the upload was thrown away.
    virtual absl::Status Commit() = 0;
  };
  struct OpenedUpload {
    std::string owner;  // not empty, a path name
    std::string sha256;
    uint64_t size = 0;
    uint64_t offset = 0;  // where to go on; what has arrived behind it is forgotten
  };
  // The caller sees to it that one owner's uploads of the same bytes do not run side by side.
  // OUT_OF_RANGE: less has arrived than `offset`.
  virtual absl::StatusOr<std::unique_ptr<Upload>> OpenUpload(const OpenedUpload& upload) = 0;
  struct Partial {
    std::string sha256;
    uint64_t bytes = 0;
  };
  // What has arrived of an owner's unfinished uploads, least recently written first.
  virtual std::vector<Partial> Partials(const std::string& owner) = 0;
  virtual void RemovePartial(const std::string& owner, const std::string& sha256) = 0;

  // At most `max` bytes; shorter only at the end. NOT_FOUND.
  virtual absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                           size_t max) const = 0;
  // NOT_FOUND.
  virtual absl::StatusOr<uint64_t> Size(const std::string& sha256) const = 0;
  // Reads all of it. OK: it matches its name. NOT_FOUND, DATA_LOSS; one of shortage.h: no verdict.
  virtual absl::Status Verify(const std::string& sha256) const = 0;

  // Deletes it unless an upload was promised or finished lately (it may be about to be referred
  // to). True: it is gone.
  virtual bool RemoveUnlessPromised(const std::string& sha256) = 0;
  // Blobs older than kUnusedKept, for the caller to check against what is referred to; deletes
  // stale uploads.
  virtual std::vector<std::string> OldBlobs() = 0;
};

// INVALID_ARGUMENT, as Begin says.
absl::Status CheckBlobName(const std::string& sha256);
absl::Status CheckBlob(const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
