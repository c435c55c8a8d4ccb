// Files that workers send to the object store themselves, in parts, to URLs that are signed here: their bytes pass no
// coordinator. The state has every upload that has begun, so any coordinator continues it; which parts have arrived,
// the store says.
//
// No coordinator has hashed such a file. Its sender has, while it read what it sent, and its word counts for its own job
// alone (ObjectNames::FindSent): equal files of two jobs are two objects.
//
// Any thread; may be slow: called on the work pools' threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/stores/object_names.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator {

class DirectUploads {
 public:
  // A smaller file costs the store more requests than bytes.
  static constexpr uint64_t kBytesMin = 1 << 20;
  // limit: checkpoints: uploads to the object store that one attempt has begun on one node; the others go through the coordinator
  static constexpr size_t kBegunMax = 1'000;
  // limit: checkpoints: parts whose URLs a worker gets at once; it asks for the next ones when these are sent
  static constexpr int kPartsAtOnce = 512;

  // Both outlive this. `prefix`: as of ObjectBlobs.
  DirectUploads(Objects& objects, ObjectNames& names, std::string prefix)
      : objects_(objects), names_(names), prefix_(std::move(prefix)) {}

  struct File {
    std::string sender;  // as owners of uploads (gates/reach.h); never empty
    uint64_t job = 0;
    std::string sha256;
    uint64_t size = 0;
  };
  struct Part {
    int number = 0;  // from 1
    std::string url;
  };
  struct Place {
    bool is_whole = false;    // the blob has its object: nothing to send
    uint64_t part_bytes = 0;  // of all parts but the last
    std::vector<Part> parts;  // that have not arrived
    bool is_more = false;     // there are further ones
  };
  // Where an upload stands; begins it if need be. `is_sent`: the sender has read the whole file, what it sent was of
  // these bytes, and they have this hash; so when all parts are there, the upload is completed.
  // nullopt: it has to go through the coordinator. Errors are of kinds that pass: UNAVAILABLE and the like.
  absl::StatusOr<std::optional<Place>> Find(const File& file, bool is_sent);

  // For a worker that may read this file of the job; 0: of no job. NOT_FOUND: it is too small for this, or not in the store.
  absl::StatusOr<PresignedUrl> UrlOf(uint64_t job, const std::string& sha256);

 private:
  absl::StatusOr<std::optional<Place>> Look(const File& file, bool is_sent);
  absl::StatusOr<std::optional<SentUpload>> Begun(const File& file);
  absl::StatusOr<std::optional<Place>> Missing(const File& file, const SentUpload& upload,
                                               std::vector<ObjectPart> arrived, bool is_sent);
  absl::StatusOr<std::optional<Place>> Name(const File& file, const SentUpload& upload);
  absl::StatusOr<std::optional<Place>> AfterItsEnd(const File& file, const SentUpload& upload);

  Objects& objects_;
  ObjectNames& names_;
  const std::string prefix_;
  RateLimitedLog refused_;
};

}  // namespace muster::coordinator
