// Blobs as objects of a store that the whole cluster reaches (stores/objects.h, object_names.h), so that every
// coordinator has all of them. Blobs that a directory had before are read from there until they are moved
// (periodic/object_move.h).
//
// Each put makes another object: PREFIX/AB/HASH/RANDOM, and clusters have different prefixes. Workers may send theirs
// to the store themselves (direct_uploads.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/object_names.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator {

// A key that was never used. `prefix`: with a slash at its end.
std::string NewObjectKey(const std::string& prefix, const std::string& sha256);

class ObjectBlobs final : public BlobStore {
 public:
  // A larger file is sent in parts, each of which is tried again alone.
  static constexpr uint64_t kInPartsAbove = 64 << 20;

  // All outlive this. `before`: where blobs were until now; null: nowhere.
  ObjectBlobs(Objects& objects, ObjectNames& names, std::string prefix,
              std::shared_ptr<BlobStore> before, const common::Clock& clock)
      : objects_(objects),
        names_(names),
        prefix_(std::move(prefix)),
        before_(std::move(before)),
        clock_(clock) {}

  absl::Status Put(const std::string& path, const std::string& sha256) override;
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset,
                                   size_t max) const override;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const override;
  absl::StatusOr<std::string> ReadFor(uint64_t job, const std::string& sha256, uint64_t offset,
                                      size_t max) const override;
  absl::StatusOr<uint64_t> SizeFor(uint64_t job, const std::string& sha256) const override;
  absl::StatusOr<bool> IsSentBy(uint64_t job, const std::string& sha256) const override;
  absl::Status ForgetJob(uint64_t job) override { return names_.DoomSent(job); }
  absl::StatusOr<std::vector<std::string>> List(std::chrono::hours age) const override;
  bool Delete(const std::string& sha256) override;

 private:
  absl::Status Send(const std::string& key, int fd, uint64_t size);
  absl::StatusOr<std::string> ReadObject(const NamedObject& object, uint64_t offset,
                                         size_t max) const;
  // Of a blob that is not an object: what `read` gets of the directory of before, or, if it was moved meanwhile, `again`.
  template <typename Result, typename Reader, typename Again>
  absl::StatusOr<Result> ReadBefore(const std::string& sha256, const Reader& read,
                                    const Again& again) const;

  Objects& objects_;
  ObjectNames& names_;
  const std::string prefix_;
  const std::shared_ptr<BlobStore> before_;
  const common::Clock& clock_;
};

}  // namespace muster::coordinator
