// Where uploads arrive: a file in uploads/ for each owner and hash. It has one writer at a time, is
// hashed while it is written, and is given away only once it is closed, durable and of the hash that
// it was uploaded for: nothing can change it between the check and its use.
//
// What has arrived stays when a writer ends, and its hash so far stays in memory: a transfer that
// takes longer than a call may last is not read again each time. Any thread.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/lru_map.h"
#include "common/sha256.h"
#include "coordinator/local/file_age.h"
#include "coordinator/paths.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/disk_gate.h"

namespace muster::coordinator {

class UploadArea {
 public:
  // Moves the finished file away.
  using Take = std::function<absl::Status(const std::string& path, const std::string& sha256)>;

  // `gate`: may be null. Uploads must not outlive the area.
  UploadArea(const Paths& paths, const DiskGate* gate, Take take)
      : paths_(paths), gate_(gate), take_(std::move(take)) {}
  // Creates the directory, and removes what older versions have left there: files without an owner,
  // which nobody continues.
  absl::Status Prepare();

  // As BlobStore says.
  absl::StatusOr<std::unique_ptr<BlobStore::Upload>> Open(const BlobStore::OpenedUpload& upload);
  uint64_t Arrived(const std::string& owner, const std::string& sha256) const;
  std::vector<BlobStore::Partial> Partials(const std::string& owner) const;
  void Remove(const std::string& owner, const std::string& sha256);
  // What nobody has written to for so long.
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
  // `hashed`: of a file that is to be continued, or null.
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
