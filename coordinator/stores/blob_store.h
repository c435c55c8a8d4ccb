// Checkpoint files and objects of jobs' code by their SHA-256: an upload is resumed where it stopped,
// and a file is there only whole, durable and with the hash that names it.
//
// Any thread; may be slow or remote: called on the work pools' threads.
//
// Every upload has an owner, and what has arrived of it has one writer at a time: bytes that were
// hashed can no longer change before they are in place. Owners know nothing of each other's uploads,
// so that none can find out what others have, or spoil it.
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
  static constexpr size_t kPartialsMax = 64;             // unfinished uploads of an owner

  virtual ~BlobStore() = default;

  // Whether the blob is here with this size; if so, it is not removed in the next minutes.
  // INVALID_ARGUMENT: not a hash, or more bytes than a file may have.
  virtual absl::StatusOr<bool> Keep(const std::string& sha256, uint64_t size) = 0;

  // Of an owner, one thread at a time. What has arrived stays when it is destroyed.
  class Upload {
   public:
    virtual ~Upload() = default;
    // Reads a piece of what had arrived before, for the hash. True: all of it; from then on Append.
    virtual absl::StatusOr<bool> CatchUp() = 0;
    // RESOURCE_EXHAUSTED: no room. OUT_OF_RANGE: more than the whole.
    virtual absl::Status Append(std::string_view data) = 0;
    // Makes durable what has arrived so far.
    virtual absl::Status Sync() = 0;
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
  // ABORTED: the owner's upload of these bytes is being written already; try again when that has
  // ended. OUT_OF_RANGE: less has arrived than `offset`. An owner that leaves more than
  // kPartialsMax uploads unfinished loses the one that was written the longest ago.
  virtual absl::StatusOr<std::unique_ptr<Upload>> OpenUpload(const OpenedUpload& upload) = 0;
  struct Partial {
    std::string sha256;
    uint64_t bytes = 0;
  };
  // What has arrived of an owner's upload; 0: nothing.
  virtual uint64_t Arrived(const std::string& owner, const std::string& sha256) = 0;
  // What has arrived of an owner's unfinished uploads, least recently written first.
  virtual std::vector<Partial> Partials(const std::string& owner) = 0;
  // Unless it is being written.
  virtual void RemovePartial(const std::string& owner, const std::string& sha256) = 0;

  // That a blob is here is no proof that an owner has it: hashes are seen by many. Remembers durably
  // that this owner has shown all its bytes, for kUnusedKept after the last question.
  virtual absl::Status Prove(const std::string& owner, const std::string& sha256) = 0;
  virtual absl::StatusOr<bool> HasProven(const std::string& owner, const std::string& sha256) = 0;

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

// Whether the blob is here and this owner has shown its bytes; if so, it is not removed in the
// next minutes. Of a blob that it has not shown nothing is looked up: neither the answer nor its
// time tells whether others have it. No owner (""): of callers that are not told apart nothing is
// asked. INVALID_ARGUMENT, as Keep says.
absl::StatusOr<bool> KeepProven(BlobStore& blobs, const std::string& owner,
                                const std::string& sha256, uint64_t size);

// INVALID_ARGUMENT, as Keep says.
absl::Status CheckBlobName(const std::string& sha256);
absl::Status CheckBlob(const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
