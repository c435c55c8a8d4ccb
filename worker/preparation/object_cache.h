// Objects of trees while they are needed: files without a name, so that a crash leaves nothing behind.
// An object that two trees of a project want at the same time is fetched once. Threads that may block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "worker/links/blob_link.h"
#include "worker/preparation/progress.h"
#include "worker/preparation/turns.h"

namespace muster::worker {

// BlobLink::Download: writes the blob to the empty file and verifies it.
using FetchObject = std::function<absl::Status(const Blob& blob, const AttemptKey& key, int fd,
                                               const std::function<bool()>& cancelled,
                                               const std::function<void(uint64_t)>& progress)>;

class ObjectCache {
 public:
  using File = std::shared_ptr<const common::UniqueFd>;

  // `directory`: on the file system where the objects lie; exists before the first Get.
  ObjectCache(std::string directory, FetchObject fetch)
      : directory_(std::move(directory)), fetch_(std::move(fetch)) {}

  // The complete, verified file; it is removed when its last holder releases it. Only attempts of the
  // same project share it: the coordinator decides what a project may read. `fetched` gets how many
  // bytes have arrived.
  absl::StatusOr<File> Get(const std::string& project, const Blob& blob, const Progress& progress,
                           const std::function<void(uint64_t)>& fetched);

 private:
  absl::StatusOr<common::UniqueFd> MakeFile() const;

  const std::string directory_;
  const FetchObject fetch_;
  Turns turns_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::weak_ptr<const common::UniqueFd>> files_;
};

}  // namespace muster::worker
