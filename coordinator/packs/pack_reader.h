// Where the segments of a stream are: in packs that are still in memory, in the store's packs, in files of before there was
// a store. Any thread; all but Began, Recorded and Forget may wait for the store, so on pools' threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/lru_map.h"
#include "coordinator/packs/format.h"
#include "coordinator/packs/open_pack.h"
#include "coordinator/segments/window.h"
#include "coordinator/store_parts/store_queue.h"
#include "coordinator/stores/objects.h"
#include "coordinator/stores/pack_names.h"

namespace muster::coordinator {

class PackReader {
 public:
  // limit: packs: bytes of packs in memory, for readers
  static constexpr size_t kCachedBytesMax = 64 << 20;
  // limit: packs: bytes of packs' directories in memory, for readers
  static constexpr size_t kDirectoriesBytesMax = 64 << 20;

  // `now_ms`: of a steady clock.
  PackReader(Objects& objects, const PackNames& names, std::string prefix,
             std::function<int64_t()> now_ms = SteadyMs);

  // The newest pack of its lane. Kept until it is recorded.
  void Began(std::shared_ptr<const OpenPack> pack);
  // From now on it is read in the store; `bytes`: the object's.
  void Recorded(const OpenPack& pack, const std::string& bytes);
  void Forget(PackKind kind, uint64_t job);

  absl::StatusOr<std::set<uint32_t>> Attempts(PackKind kind, uint64_t job) const;
  absl::StatusOr<std::set<PackStream>> Streams(PackKind kind, uint64_t job, uint32_t attempt) const;
  // The stream's, followed as it grows. `before`: segments that it had elsewhere, which come first; may be null. The
  // reader outlives it.
  std::shared_ptr<const StreamSegments> Segments(
      PackKind kind, uint64_t job, uint32_t attempt, PackStream stream,
      std::shared_ptr<const StreamSegments> before) const;
  // Where the recorded streams of the lane end. Empty: it has none.
  absl::StatusOr<std::map<PackStream, StreamEnd>> Ends(const LanePacks& packs) const;

  absl::StatusOr<std::shared_ptr<const PackDirectory>> Directory(const PackLane& lane,
                                                                 const std::string& name) const;
  // `size` bytes of an object, fewer at its end. NOT_FOUND: it is not there. UNAVAILABLE: also at once, for some seconds
  // after the store did not answer, so that its readers do not hold all threads.
  absl::StatusOr<std::string> Read(const std::string& key, uint64_t position, size_t size) const;

 private:
  friend class PackSegments;
  // One segment of a stream.
  struct Place {
    std::shared_ptr<const OpenPack> open;  // or
    std::string key;
    uint64_t position = 0;
    uint64_t length = 0;
  };
  using Places = std::map<uint64_t, Place>;  // by the stream's offset where they begin
  using Block = std::shared_ptr<const std::string>;

  // Of the newest of these that can be read; null: none can.
  absl::StatusOr<std::shared_ptr<const PackDirectory>> Newest(
      const PackLane& lane, const std::vector<std::string>& names) const;
  absl::StatusOr<Places> PlacesOf(PackKind kind, uint64_t job, uint32_t attempt,
                                  PackStream stream) const;
  absl::Status AddRecorded(const LanePacks& packs, PackStream stream, Places& places) const;
  std::vector<std::shared_ptr<const OpenPack>> OpenPacks(PackKind kind, uint64_t job,
                                                         std::optional<uint32_t> attempt) const;
  absl::StatusOr<Block> BlockOf(const std::string& key, uint64_t number) const;
  // UNAVAILABLE: others wait for the store already, or it did not answer. Else BlockOf ends it.
  absl::Status BeginRead() const;

  Objects& objects_;
  const PackNames& names_;
  const std::string prefix_;
  const std::function<int64_t()> now_ms_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<PackLane, std::vector<std::shared_ptr<const OpenPack>>> open_;
  mutable common::LruMap<std::pair<std::string, uint64_t>, Block> blocks_;
  mutable common::LruMap<std::string, std::shared_ptr<const PackDirectory>> directories_;
  mutable std::multiset<int64_t> asked_ms_;  // since when the store is asked for something
  mutable bool is_doubtful_ = false;         // it did not answer the last time
  mutable int64_t silent_until_ms_ = 0;
};

// The names of the lane's packs, in their order.
std::vector<std::string> NamesOf(const LanePacks& packs);

}  // namespace muster::coordinator
