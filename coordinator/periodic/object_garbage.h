// Deletes in the object store (stores/objects.h) what no blob is in any more: doomed objects, objects that were put and
// never named, uploads that were never completed. The leader alone does it; it may be killed at any point.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/stores/object_names.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator {

// A reader that found a name before it was doomed is over by then, and so is the term of a leader that was deposed.
inline constexpr std::chrono::minutes kDoomedKept{30};
// What no name has was seen this long ago already: longer than any upload takes.
inline constexpr std::chrono::hours kUnnamedKept{24};
inline constexpr std::chrono::hours kSweepEvery{6};

// All times are of the coordinator's lived clock: the store's and the machine's may be wrong.
class ObjectGarbage {
 public:
  // Objects below a prefix, and who knows which of their keys have a name. Others may have other objects in the store.
  struct Kept {
    std::string prefix;
    std::function<absl::StatusOr<std::vector<std::string>>(const std::vector<std::string>&)>
        unknown;
  };
  // `prefix`: of blobs' keys (store_parts/object_blobs.h); `others`: besides these.
  ObjectGarbage(Objects& objects, ObjectNames& names, const std::string& prefix,
                std::vector<Kept> others = {});
  // The doomed ones: cost grows with what was removed.
  absl::Status DeleteDoomed(int64_t lived_ms);
  // Goes through the whole store, so seldom.
  absl::Status DeleteUnnamed(int64_t lived_ms);
  // The doomed ones, and every kSweepEvery the others.
  absl::Status Collect(int64_t lived_ms);

 private:
  // What is found again and again, by when it was found first. What is not found any more is forgotten.
  class Seen {
   public:
    // Of these, those that were seen long enough ago.
    std::vector<std::string> Old(const std::vector<std::string>& found, int64_t lived_ms);
    void EndOfSweep();

   private:
    std::map<std::string, int64_t> first_;
    std::set<std::string> now_;
  };
  bool IsOurs(const std::string& key) const;
  // How many were deleted.
  absl::StatusOr<size_t> DeleteUnnamed(const Kept& kept, int64_t lived_ms);
  absl::Status AbortUploads(int64_t lived_ms);

  Objects& objects_;
  ObjectNames& names_;
  std::vector<Kept> kept_;
  Seen unnamed_, uploads_;
  int64_t swept_ms_ = 0;
};

// Now, and every few minutes; the whole store every few hours. All outlive what the pool runs.
void CollectObjects(ObjectGarbage& garbage, const common::Clock& clock, WorkPool& pool);

}  // namespace muster::coordinator
