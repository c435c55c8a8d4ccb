// Which object of the store that the whole cluster reaches (objects.h) has a blob (blob_store.h). What exists is what
// this says: an object that it does not name is garbage, or about to be named. Part of the state: every coordinator has
// the same names, and one that was deposed can change none.
//
// A key is made for one upload and never named again once it is doomed. Any thread; on pools' threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

// Whose object tells this store from another one (periodic/object_mark.h): its bytes and their SHA-256. Never old.
inline constexpr char kStoreMarkBytes[] = "muster: the cluster's object store";
inline constexpr char kStoreMark[] =
    "157eb6d75f22e5305a2bf164940b70925cdc171ac7aafb24238c40cc388bd332";

struct NamedObject {
  std::string key;
  uint64_t bytes = 0;
};

// An upload that its sender makes at the store itself.
struct SentUpload {
  std::string key;
  std::string id;  // the store's
  uint64_t bytes = 0;
};

class ObjectNames {
 public:
  virtual ~ObjectNames() = default;

  virtual absl::StatusOr<std::optional<NamedObject>> Find(const std::string& sha256) const = 0;
  // What the job's own workers sent to the store themselves (store_parts/direct_uploads.h). Only they say that these are
  // the blob's bytes, so for other jobs it is not there, and for this one it comes before what was hashed.
  virtual absl::StatusOr<std::optional<NamedObject>> FindSent(uint64_t job,
                                                              const std::string& sha256) const = 0;
  // The blob is in this object from now on; one that had it before is doomed. Durable when it returns.
  virtual absl::Status Name(const std::string& sha256, const NamedObject& object) = 0;
  // The upload of this blob by this sender that has begun and was not named yet.
  virtual absl::StatusOr<std::optional<SentUpload>> FindUpload(const std::string& sender,
                                                               const std::string& sha256) const = 0;
  virtual absl::StatusOr<size_t> CountUploads(const std::string& sender) const = 0;
  // Durable when it returns the one that has begun: this one, or another call's that came first.
  virtual absl::StatusOr<SentUpload> KeepUpload(const std::string& sender,
                                                const std::string& sha256,
                                                const SentUpload& upload) = 0;
  // The upload's object has the blob for this job from now on; the upload is over. If an object that the job sent has it
  // already, this one is doomed. False: it is doomed, as the upload is not known any more.
  virtual absl::StatusOr<bool> NameUpload(const std::string& sender, uint64_t job,
                                          const std::string& sha256, const SentUpload& upload) = 0;
  // This upload will never be named; its object, if there will be one, is garbage.
  virtual absl::Status DropUpload(const std::string& sender, const std::string& sha256,
                                  const std::string& key) = 0;
  virtual absl::Status DropUploadsBefore(int64_t lived_ms) = 0;

  // The blob is no more, for no job. False: it was not named.
  virtual absl::StatusOr<bool> Doom(const std::string& sha256) = 0;
  // The job is no more: nothing that it sent is.
  virtual absl::Status DoomSent(uint64_t job) = 0;
  // The blobs that were named before this time of the coordinator's lived clock, also those that were sent.
  virtual absl::StatusOr<std::vector<std::string>> NamedBefore(int64_t lived_ms) const = 0;

  // At most `most` keys that were doomed before this time: no one reads them any more.
  virtual absl::StatusOr<std::vector<std::string>> DoomedBefore(int64_t lived_ms,
                                                                size_t most) const = 0;
  // They are deleted in the store.
  virtual absl::Status Forget(const std::vector<std::string>& keys) = 0;
  // Of these keys, those that no row has: named, doomed, or of an upload that has begun.
  virtual absl::StatusOr<std::vector<std::string>> Unknown(
      const std::vector<std::string>& keys) const = 0;
};

}  // namespace muster::coordinator
