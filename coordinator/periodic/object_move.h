// Moves the blobs that the data directory had before there was an object store into that. Each can be read all the
// while; a kill at any point loses none. The leader alone does it, of its own directory.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class ObjectMove {
 public:
  // `into`: puts into the object store; `paths`: the blobs' directory (local/blob_store.h).
  ObjectMove(std::shared_ptr<BlobStore> into, const Paths& paths)
      : into_(std::move(into)), paths_(paths) {}

  // Moves one blob. False: none is left. One that is damaged stays where it is, and is named in the log. An error: it
  // stays for now, and its turn comes again after the others'.
  absl::StatusOr<bool> Next();
  size_t moved() const { return moved_; }

 private:
  absl::Status Move(const std::string& sha256);

  const std::shared_ptr<BlobStore> into_;
  const Paths paths_;
  bool is_listed_ = false;
  std::deque<std::string> left_;
  size_t moved_ = 0;
};

// One after the other, between what else the pool does. All outlive what it runs.
void MoveIntoObjects(ObjectMove& move, WorkPool& pool);

}  // namespace muster::coordinator
