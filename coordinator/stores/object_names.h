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

struct NamedObject {
  std::string key;
  uint64_t bytes = 0;
};

class ObjectNames {
 public:
  virtual ~ObjectNames() = default;

  virtual absl::StatusOr<std::optional<NamedObject>> Find(const std::string& sha256) const = 0;
  // The blob is in this object from now on; one that had it before is doomed. Durable when it returns.
  virtual absl::Status Name(const std::string& sha256, const NamedObject& object) = 0;
  // The blob is no more. False: it was not named.
  virtual absl::StatusOr<bool> Doom(const std::string& sha256) = 0;
  // The blobs that were named before this time of the coordinator's lived clock.
  virtual absl::StatusOr<std::vector<std::string>> NamedBefore(int64_t lived_ms) const = 0;

  // At most `most` keys that were doomed before this time: no one reads them any more.
  virtual absl::StatusOr<std::vector<std::string>> DoomedBefore(int64_t lived_ms,
                                                                size_t most) const = 0;
  // They are deleted in the store.
  virtual absl::Status Forget(const std::vector<std::string>& keys) = 0;
  // Of these keys, those that no row has, named or doomed.
  virtual absl::StatusOr<std::vector<std::string>> Unknown(
      const std::vector<std::string>& keys) const = 0;
};

}  // namespace muster::coordinator
