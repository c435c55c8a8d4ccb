#include "coordinator/packs/merge.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "coordinator/segments/buffer.h"
#include "coordinator/segments/scan.h"

namespace muster::coordinator {
namespace {

// So many merged packs of one level become one of the next.
constexpr size_t kOfOneLevel = 16;
// The level of what a quota left: never merged with others.
constexpr uint32_t kTrimmed = 0;
// How many packs a quota takes at a time.
constexpr size_t kTrimmedAtOnce = 16;

class BytesOfSegment final : public SegmentBytes {
 public:
  explicit BytesOfSegment(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<Piece> Read(uint64_t position, size_t size) override {
    Piece piece{.bytes = {}, .total = bytes_.size(), .identity = 1};
    if (position < bytes_.size()) piece.bytes = std::string(bytes_.substr(position, size));
    return piece;
  }
  std::string Name() const override { return "a pack's segment"; }

 private:
  const std::string_view bytes_;
};

// One stream of the new pack: its finished segments, and the one that gets more records.
class MergedStream {
 public:
  // `keeps`: how many of its last bytes are kept; the others are marked as removed for a quota.
  MergedStream(const SegmentId& id, uint64_t keeps) : id_(id), keeps_(keeps) {}

  // The records of a segment of an older pack, whose entry there is `entry`.
  absl::Status Take(const PackSegment& entry, std::string_view bytes) {
    SegmentScan scan(std::make_unique<BytesOfSegment>(bytes), bytes.size());
    ASSIGN_OR_RETURN(const auto head, scan.Head());
    if (!segment_.has_value())
      RETURN_IF_ERROR(Begin(entry.first_offset, head.has_value() ? head->first_count : 0));
    // The trailer tells where the records end.
    RETURN_IF_ERROR(scan.Trailer().status());
    while (head.has_value()) {
      ASSIGN_OR_RETURN(auto sound, scan.NextSound());
      if (!sound.has_value()) break;
      if (keeps_ == kAll) {
        RETURN_IF_ERROR(Add(sound->first, sound->second));
      } else {
        Keep(sound->first, std::move(sound->second));
      }
    }
    // Records at its end may be damaged.
    EndAtLeast({.end_offset = entry.end_offset, .end_count = entry.end_count, .ended = entry.ended},
               end_);
    if (keeps_ == kAll) EndAtLeast(end_, segment_->layout().end);
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (keeps_ != kAll) RETURN_IF_ERROR(AddKept());
    EndAtLeast(end_, segment_->layout().end);
    FinishSegment();
    return absl::OkStatus();
  }
  const std::vector<SegmentBuffer>& done() const { return done_; }

  static constexpr uint64_t kAll = UINT64_MAX;

 private:
  absl::Status Begin(uint64_t first_offset, uint64_t first_count) {
    ASSIGN_OR_RETURN(segment_, SegmentBuffer::Begin(id_, first_offset, first_count));
    return absl::OkStatus();
  }
  absl::Status Add(const RecordHead& record, std::string_view body) {
    if (segment_->bytes().size() >= kSegmentBytesMax) {
      const SegmentTrailer before = segment_->layout().end;
      FinishSegment();
      RETURN_IF_ERROR(Begin(before.end_offset, before.end_count));
    }
    segment_->Add(record, body);
    return absl::OkStatus();
  }
  // The last records that together have `keeps_` bytes, or a little more.
  void Keep(const RecordHead& record, std::string body) {
    kept_bytes_ += body.size();
    last_us_ = record.time_us;
    kept_.emplace_back(record, std::move(body));
    while (!kept_.empty() && kept_bytes_ - kept_.front().second.size() >= keeps_) {
      kept_bytes_ -= kept_.front().second.size();
      kept_.pop_front();
    }
  }
  absl::Status AddKept() {
    const uint64_t first = segment_->layout().head.first_offset;
    const uint64_t from =
        kept_.empty() ? end_.end_offset : kept_.front().first.offset - kept_.front().first.dropped;
    if (from > first) {
      RETURN_IF_ERROR(Add({.offset = from,
                           .dropped = from - first,
                           .time_us = last_us_,
                           .count = kept_.empty() ? end_.end_count : kept_.front().first.count,
                           .removed = true},
                          ""));
    }
    for (const auto& [record, body] : kept_) RETURN_IF_ERROR(Add(record, body));
    return absl::OkStatus();
  }
  void FinishSegment() {
    segment_->Finish();
    done_.push_back(*std::move(segment_));
    segment_.reset();
  }

  const SegmentId id_;
  const uint64_t keeps_;
  std::optional<SegmentBuffer> segment_;
  SegmentTrailer end_;  // of what was taken
  std::deque<std::pair<RecordHead, std::string>> kept_;
  uint64_t kept_bytes_ = 0;
  int64_t last_us_ = 0;
  std::vector<SegmentBuffer> done_;
};

// Which packs become one, in their order: merged ones, then others.
struct Choice {
  PackMerge merge;
  std::vector<std::string> names;
};

// The last merged ones, if there are enough of one level that are small.
std::optional<Choice> ChooseMerged(const LanePacks& packs, size_t bytes_max) {
  Choice choice;
  uint64_t bytes = 0;
  for (auto each = packs.merged.rbegin(); each != packs.merged.rend(); ++each) {
    bytes += each->bytes;
    if (each->level != packs.merged.back().level || bytes > bytes_max) break;
    choice.merge.merged.insert(choice.merge.merged.begin(), *each);
  }
  if (choice.merge.merged.size() < kOfOneLevel) return std::nullopt;
  for (const MergedPack& merged : choice.merge.merged) choice.names.push_back(merged.name);
  choice.merge.made.place = choice.merge.merged.front().place;
  choice.merge.made.level = choice.merge.merged.front().level + 1;
  return choice;
}

// Adds the oldest ones until there are `many`.
void AddUnmerged(const LanePacks& packs, size_t many, Choice& choice) {
  for (const PackRun& run : packs.runs) {
    PackRun taken{.term = run.term, .first = run.first, .last = run.first - 1};
    while (taken.last < run.last && choice.names.size() < many)
      choice.names.push_back(PackName(run.term, ++taken.last));
    if (taken.last >= taken.first) choice.merge.runs.push_back(taken);
  }
}

std::optional<Choice> ChooseUnmerged(const LanePacks& packs, size_t many) {
  Choice choice;
  AddUnmerged(packs, many, choice);
  if (choice.names.size() < many) return std::nullopt;
  choice.merge.made.place = packs.merged.empty() ? 1 : packs.merged.back().place + 1;
  return choice;
}

// The oldest ones, but not the newest. What was trimmed before is among them; without others, there is nothing to trim.
std::optional<Choice> ChooseToTrim(const LanePacks& packs) {
  const size_t all = NamesOf(packs).size();
  Choice choice;
  choice.merge.made.level = kTrimmed;
  for (const MergedPack& merged : packs.merged) {
    if (choice.names.size() + 1 >= all || choice.names.size() >= kTrimmedAtOnce) break;
    choice.merge.merged.push_back(merged);
    choice.names.push_back(merged.name);
  }
  if (choice.names.size() == packs.merged.size() && all > 0)
    AddUnmerged(packs, std::min(all - 1, kTrimmedAtOnce), choice);
  const bool has_new = choice.names.size() > 1 ||
                       (choice.names.size() == 1 &&
                        (choice.merge.merged.empty() || choice.merge.merged[0].level != kTrimmed));
  if (!has_new) return std::nullopt;
  choice.merge.made.place = packs.merged.empty() ? 1 : packs.merged.front().place;
  return choice;
}

// Leaves only the first `count` packs in the choice.
void CutTo(size_t count, Choice& choice) {
  choice.names.resize(count);
  const size_t merged = std::min(count, choice.merge.merged.size());
  choice.merge.merged.resize(merged);
  count -= merged;
  std::vector<PackRun> kept;
  for (PackRun run : choice.merge.runs) {
    const uint64_t taken = std::min<uint64_t>(run.last + 1 - run.first, count);
    if (taken == 0) break;
    run.last = run.first + taken - 1;
    count -= taken;
    kept.push_back(run);
  }
  choice.merge.runs = std::move(kept);
}

// The chosen ones' bytes; fewer, if they have more than `bytes_max` together.
absl::StatusOr<std::vector<std::string>> ReadChosen(const PackPlace& place,
                                                    const PackReader& reader, const PackLane& lane,
                                                    uint64_t bytes_max, Choice& choice) {
  std::vector<std::string> packs;
  uint64_t total = 0;
  for (const std::string& name : choice.names) {
    absl::StatusOr<std::string> pack =
        reader.Read(PackKey(place.prefix, lane, name), 0, Objects::kReadBytesMax);
    if (absl::IsNotFound(pack.status())) pack = std::string();  // lost: a gap
    RETURN_IF_ERROR(pack.status());
    if (total > 0 && total + pack->size() > bytes_max) break;
    total += pack->size();
    packs.push_back(*std::move(pack));
  }
  CutTo(packs.size(), choice);
  return packs;
}

absl::Status Replace(const PackPlace& place, const PackLane& lane,
                     const std::vector<std::string>& old, const std::string& made,
                     const std::string& name, Choice& choice) {
  uint64_t had = 0;
  for (const std::string& pack : old) had += pack.size();
  choice.merge.freed = had - std::min<uint64_t>(had, made.size());
  choice.merge.lane = lane;
  choice.merge.made.name = name;
  choice.merge.made.bytes = made.size();
  RETURN_IF_ERROR(place.objects.Put(PackKey(place.prefix, lane, name), std::string_view(made)));
  return place.names.Merge(choice.merge);
}

}  // namespace

absl::StatusOr<std::string> MergePacks(const PackLane& lane, const std::vector<std::string>& packs,
                                       const std::map<PackStream, StreamEnd>* trimmed) {
  std::map<PackStream, MergedStream> streams;
  std::map<PackStream, StreamEnd> ends;
  std::vector<std::pair<std::string_view, PackDirectory>> sound;
  for (const std::string& pack : packs) {
    absl::StatusOr<PackDirectory> directory = DecodePackDirectory(pack);
    if (!directory.ok()) continue;  // a gap
    for (const auto& [stream, end] : StreamEnds(*directory)) ends[stream] = end;
    sound.emplace_back(pack, *std::move(directory));
  }
  // Of a stream that continues in later packs, nothing need stay in these.
  const auto keeps = [&](const PackStream& stream) -> uint64_t {
    if (trimmed == nullptr) return MergedStream::kAll;
    const auto last = trimmed->find(stream);
    const bool is_last = last == trimmed->end() || last->second.offset == ends.at(stream).offset;
    return is_last ? kKeptOfStreamBytes : 0;
  };
  for (const auto& [pack, directory] : sound) {
    for (const PackSegment& entry : directory.segments) {
      const bool is_there = entry.length > 0 && entry.position <= pack.size() &&
                            entry.length <= pack.size() - entry.position;
      if (!is_there) continue;
      const auto stream =
          streams.try_emplace(entry.stream, SegmentIdOf(lane, entry.stream), keeps(entry.stream));
      RETURN_IF_ERROR(stream.first->second.Take(entry, pack.substr(entry.position, entry.length)));
    }
  }
  PackDirectory made{.lane = lane, .segments = {}};
  std::string bodies;
  for (const auto& [stream, end] : ends) {
    const auto merged = streams.find(stream);
    if (merged == streams.end()) {
      made.segments.push_back(WithoutBytes(stream, end));
      continue;
    }
    RETURN_IF_ERROR(merged->second.Finish());
    for (const SegmentBuffer& segment : merged->second.done()) {
      made.segments.push_back(EntryOf(segment));
      made.segments.back().position = bodies.size();
      bodies += segment.bytes();
    }
  }
  const size_t begin = PackDirectoryBytes(made.segments.size());
  for (PackSegment& entry : made.segments) {
    if (entry.length > 0) entry.position += begin;
  }
  return EncodePackDirectory(made) + bodies;
}

absl::StatusOr<std::optional<size_t>> MergeOldest(const PackPlace& place, const PackReader& reader,
                                                  const PackLane& lane, size_t many,
                                                  size_t bytes_max, const std::string& name) {
  ASSIGN_OR_RETURN(const std::optional<LanePacks> packs, place.names.Find(lane));
  if (!packs.has_value()) return std::nullopt;
  std::optional<Choice> choice = ChooseMerged(*packs, bytes_max);
  const bool is_unmerged = !choice.has_value();
  if (is_unmerged) choice = ChooseUnmerged(*packs, many);
  if (!choice.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<std::string> bytes,
                   ReadChosen(place, reader, lane, bytes_max, *choice));
  ASSIGN_OR_RETURN(const std::string made, MergePacks(lane, bytes));
  RETURN_IF_ERROR(Replace(place, lane, bytes, made, name, *choice));
  return is_unmerged ? bytes.size() : 0;
}

absl::StatusOr<uint64_t> TrimOldest(const PackPlace& place, const PackReader& reader, uint64_t job,
                                    uint64_t bytes, const std::string& name) {
  ASSIGN_OR_RETURN(std::vector<LanePacks> lanes,
                   place.names.Lanes(PackKind::kLogs, job, std::nullopt));
  std::sort(lanes.begin(), lanes.end(),
            [](const LanePacks& a, const LanePacks& b) { return a.bytes > b.bytes; });
  for (const LanePacks& packs : lanes) {
    std::optional<Choice> choice = ChooseToTrim(packs);
    if (!choice.has_value()) continue;
    ASSIGN_OR_RETURN(const std::vector<std::string> old,
                     ReadChosen(place, reader, packs.lane, bytes, *choice));
    ASSIGN_OR_RETURN(const auto ends, reader.Ends(packs));
    ASSIGN_OR_RETURN(const std::string made, MergePacks(packs.lane, old, &ends));
    RETURN_IF_ERROR(Replace(place, packs.lane, old, made, name, *choice));
    if (choice->merge.freed > 0) return choice->merge.freed;
  }
  return 0;
}

}  // namespace muster::coordinator
