// Where uploads arrive before their bytes become blobs: a file in uploads/ for each owner and hash,
// whichever engine keeps the blobs. The file has one writer at a time, is hashed while it is written, and
// is handed over only once it is closed, durable and matches the hash that it was uploaded for: nothing
// can change it between the check and its use. Owners do not see each other's uploads, so that none can
// find out what others have, or spoil it.
//
// What has arrived stays when a writer ends, and its hash so far stays in memory, so that a transfer that
// takes longer than one call is not read again each time. Any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/lru_map.h"
#include "common/hash/sha256.h"
#include "coordinator/store_parts/disk_gate.h"
#include "coordinator/store_parts/file_age.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class UploadArea {
 public:
  // limit: code: unfinished uploads of a project, or of an attempt's node; the oldest goes
  static constexpr size_t kPartialsMax = 64;  // unfinished uploads of an owner

  // One owner's upload; one thread at a time. What has arrived stays when this is destroyed.
  class Upload {
   public:
    virtual ~Upload() = default;
    // Hashes a piece of what had arrived before. True: that was all; from then on use Append.
    virtual absl::StatusOr<bool> CatchUp() = 0;
    // RESOURCE_EXHAUSTED: no room. OUT_OF_RANGE: more bytes than the upload's size.
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
    uint64_t offset = 0;  // where to continue; what has arrived behind it is discarded
  };
  struct Partial {
    std::string sha256;
    uint64_t bytes = 0;
  };

  // Moves the finished file away.
  using Take = std::function<absl::Status(const std::string& path, const std::string& sha256)>;

  // `gate`: may be null. Uploads must not outlive the area.
  UploadArea(const Paths& paths, const DiskGate* gate, Take take)
      : paths_(paths), gate_(gate), take_(std::move(take)) {}
  // Creates the directory, and removes what older versions have left there: files without an owner,
  // which no upload continues.
  absl::Status Prepare();

  // ABORTED: the owner's upload of these bytes is being written already; try again when that has
  // ended. OUT_OF_RANGE: less than `offset` has arrived. An owner that leaves more than kPartialsMax
  // uploads unfinished loses the least recently written one.
  absl::StatusOr<std::unique_ptr<Upload>> Open(const OpenedUpload& upload);
  // What has arrived of an owner's upload; 0: nothing.
  uint64_t Arrived(const std::string& owner, const std::string& sha256) const;
  // What has arrived of an owner's unfinished uploads, least recently written first.
  std::vector<Partial> Partials(const std::string& owner) const;
  // Does nothing while it is being written.
  void Remove(const std::string& owner, const std::string& sha256);
  // Removes uploads that were not written to for kUnusedKept.
  void RemoveUnused(const FileAge& age);

 private:
  class Writer;
  struct Name {
    std::string owner;
    std::string sha256;
    auto operator<=>(const Name&) const = default;
  };
  struct Hashed {
    common::Sha256 hash;
    uint64_t bytes = 0;
  };
  static constexpr size_t kHashedMax = 1'024;

  std::string PathOf(const Name& name) const { return paths_.UploadFile(name.sha256, name.owner); }
  // False: another writer has it.
  bool Claim(const Name& name);
  // `hashed`: of a file that may be continued, or null.
  void Release(const Name& name, std::unique_ptr<Hashed> hashed);
  std::unique_ptr<Hashed> HashedBefore(const Name& name, uint64_t offset);
  void RemoveSurplus(const std::string& owner);

  const Paths paths_;
  const DiskGate* const gate_;
  const Take take_;
  std::mutex mutex_;        // guards what follows
  std::set<Name> written_;  // being written now
  common::LruMap<Name, std::unique_ptr<Hashed>> hashed_{
      kHashedMax};  // of files that no writer has now
};

}  // namespace muster::coordinator
