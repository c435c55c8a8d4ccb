// Segments that a data directory had before there was an object store become packs. A segment is put as it is, with its
// place in the stream, so readers find each byte once at any moment: in the file, in the pack, or in both.
//
// Blocks: on a pool's thread that may take hours.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/packs/packs.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {

// A lane's streams in files.
struct LaneFiles {
  PackLane lane;
  std::map<PackStream, SegmentFiles> streams;
  std::string note;  // RecordedPack::note
};

class MovedFiles {
 public:
  // limit: packs: of files that are moved into the object store, unless one file is larger
  static constexpr size_t kPackBytesMax = 16 << 20;

  // `stop`: the coordinator stops; outlives this.
  MovedFiles(Packs& packs, const std::atomic<bool>& stop) : packs_(packs), stop_(stop) {}

  // Of a job that has ended. OK: all is in packs, and the files are of no use any more. FAILED_PRECONDITION: some cannot
  // be moved, as it is damaged, or as the lane has other packs. Other errors pass. A kill at any point loses nothing; then
  // it continues.
  absl::Status Move(const LaneFiles& files);

 private:
  struct Segment {
    PackStream stream;
    uint64_t first_offset = 0;
    const SegmentFiles* files = nullptr;
  };
  // Waits until the lane is open: from then on no file changes.
  absl::Status OpenLane(const PackLane& lane);
  absl::StatusOr<std::vector<Segment>> Missing(const LaneFiles& files) const;
  absl::Status MoveSome(const LaneFiles& files, std::vector<Segment>& missing);

  Packs& packs_;
  const std::atomic<bool>& stop_;
};

}  // namespace muster::coordinator
