#include "coordinator/packs/moved_files.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/packs/format.h"
#include "coordinator/segments/scan.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::milliseconds kLookEvery{100};

absl::Status Stays(const std::string& why) { return absl::FailedPreconditionError(why); }

// What is done on the writer's thread, for the thread that waits for it.
struct Outcome {
  std::mutex mutex;  // guards what follows
  std::condition_variable told;
  std::optional<absl::Status> status;

  void Tell(absl::Status how) {
    std::lock_guard lock(mutex);
    if (!status.has_value()) status = std::move(how);
    told.notify_all();
  }
  absl::Status Wait(const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex);
    while (!status.has_value()) {
      if (stop) return absl::CancelledError("the coordinator stops");
      told.wait_for(lock, kLookEvery);
    }
    return *status;
  }
};

class TellOutcome final : public AfterPack {
 public:
  explicit TellOutcome(std::shared_ptr<Outcome> outcome) : outcome_(std::move(outcome)) {}
  void Recorded() override { outcome_->Tell(absl::OkStatus()); }
  void Dropped() override { outcome_->Tell(absl::CancelledError("the job was removed")); }

 private:
  const std::shared_ptr<Outcome> outcome_;
};

// A whole file with its entry. FAILED_PRECONDITION: it is damaged.
absl::StatusOr<std::pair<PackSegment, std::string>> ReadSegment(const SegmentFiles& files,
                                                                PackStream stream,
                                                                uint64_t first_offset) {
  ASSIGN_OR_RETURN(SegmentBytes::Piece piece,
                   files.Open(first_offset)->Read(0, Objects::kReadBytesMax));
  if (piece.bytes.empty() || piece.bytes.size() != piece.total)
    return Stays(StrCat(files.At(first_offset), " is empty, or too large"));
  SegmentScan scan(files.Open(first_offset), piece.bytes.size());
  ASSIGN_OR_RETURN(const auto head, scan.Head());
  ASSIGN_OR_RETURN(const auto trailer, scan.Trailer());
  if (!head.has_value() || !trailer.has_value() || head->first_offset != first_offset)
    return Stays(StrCat(files.At(first_offset), " is damaged"));
  return std::pair{PackSegment{.stream = stream,
                               .first_offset = first_offset,
                               .end_offset = trailer->end_offset,
                               .end_count = trailer->end_count,
                               .length = piece.bytes.size(),
                               .ended = trailer->ended},
                   std::move(piece.bytes)};
}

}  // namespace

absl::Status MovedFiles::Move(const LaneFiles& files) {
  RETURN_IF_ERROR(OpenLane(files.lane));
  ASSIGN_OR_RETURN(std::vector<Segment> missing, Missing(files));
  while (!missing.empty()) RETURN_IF_ERROR(MoveSome(files, missing));
  return absl::OkStatus();
}

absl::Status MovedFiles::OpenLane(const PackLane& lane) {
  const auto opened = std::make_shared<Outcome>();
  packs_.writer.Post([&writer = packs_.writer, lane, opened] {
    writer.Use(
        lane, [opened](PackWriter::Lane&) { opened->Tell(absl::OkStatus()); },
        [opened] { opened->Tell(absl::CancelledError("the job was removed")); });
  });
  return opened->Wait(stop_);
}

// Packs continue in the order of their numbers, so they hold what was moved before and nothing else.
absl::StatusOr<std::vector<MovedFiles::Segment>> MovedFiles::Missing(const LaneFiles& files) const {
  std::vector<Segment> missing;
  bool has_others = false;
  for (const auto& [stream, segments] : files.streams) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> in_files, segments.List());
    ASSIGN_OR_RETURN(const std::vector<uint64_t> in_packs,
                     packs_.reader
                         .Segments(files.lane.kind, files.lane.job, files.lane.attempt, stream,
                                   /*before=*/nullptr)
                         ->List());
    const std::set<uint64_t> known(in_packs.begin(), in_packs.end());
    for (const uint64_t offset : in_files) {
      if (!known.contains(offset))
        missing.push_back({.stream = stream, .first_offset = offset, .files = &segments});
    }
    has_others |= !std::includes(in_files.begin(), in_files.end(), known.begin(), known.end());
  }
  if (has_others && !missing.empty()) return Stays("its output continued in the object store");
  return missing;
}

absl::Status MovedFiles::MoveSome(const LaneFiles& files, std::vector<Segment>& missing) {
  PackDirectory directory{.lane = files.lane, .segments = {}};
  std::string bodies;
  size_t taken = 0;
  for (; taken < missing.size(); ++taken) {
    const Segment& next = missing[taken];
    ASSIGN_OR_RETURN(auto read, ReadSegment(*next.files, next.stream, next.first_offset));
    if (taken > 0 && bodies.size() + read.second.size() > kPackBytesMax) break;
    read.first.position = bodies.size();
    directory.segments.push_back(read.first);
    bodies += read.second;
  }
  const auto done = std::make_shared<Outcome>();
  // Its turn may come when this is no more: after a stop.
  packs_.writer.Post([&writer = packs_.writer, directory = std::move(directory),
                      bodies = std::move(bodies), note = files.note, done]() mutable {
    const PackLane lane = directory.lane;
    writer.Use(
        lane,
        [&writer, directory = std::move(directory), bodies = std::move(bodies),
         note = std::move(note), done](PackWriter::Lane& open) mutable {
          writer.SetNote(open, std::move(note));
          const absl::Status put = writer.PutWhole(open, std::move(directory), bodies,
                                                   std::make_unique<TellOutcome>(done));
          if (!put.ok()) done->Tell(put);
        },
        [done] { done->Tell(absl::CancelledError("the job was removed")); });
  });
  RETURN_IF_ERROR(done->Wait(stop_));
  missing.erase(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(taken));
  return absl::OkStatus();
}

}  // namespace muster::coordinator
