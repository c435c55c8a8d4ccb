#include "coordinator/packs/pack_reader.h"

#include <algorithm>
#include <functional>
#include <span>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

constexpr uint64_t kBlockBytes = 1 << 20;
// How long a store that did not answer is not asked.
constexpr int64_t kSilentMs = 5'000;
// Others do not join one that waits this long.
constexpr int64_t kSlowMs = 2'000;

// As other programs, or another life of the state, may leave it.
bool IsLost(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status);
}

std::span<const PackSegment> SegmentsOf(const PackDirectory& directory, PackStream stream) {
  const auto [from, to] = std::equal_range(
      directory.segments.begin(), directory.segments.end(), PackSegment{.stream = stream},
      [](const PackSegment& a, const PackSegment& b) { return a.stream < b.stream; });
  return {from, to};
}

class StoredSegment final : public SegmentBytes {
 public:
  StoredSegment(const PackReader& reader, std::string key, uint64_t position, uint64_t length)
      : reader_(reader), key_(std::move(key)), position_(position), length_(length) {}

  absl::StatusOr<Piece> Read(uint64_t position, size_t size) override {
    Piece piece{.bytes = {},
                .total = length_,
                .identity = (std::hash<std::string>{}(key_) ^ (position_ << 1)) | 1};
    if (position >= length_) return piece;
    const size_t left = std::min<uint64_t>(size, length_ - position);
    absl::StatusOr<std::string> bytes = reader_.Read(key_, position_ + position, left);
    if (absl::IsNotFound(bytes.status())) return Piece{};
    RETURN_IF_ERROR(bytes.status());
    piece.bytes = *std::move(bytes);
    return piece;
  }
  std::string Name() const override { return common::StrCat("object ", key_); }

 private:
  const PackReader& reader_;
  const std::string key_;
  const uint64_t position_;
  const uint64_t length_;
};

class OpenSegment final : public SegmentBytes {
 public:
  OpenSegment(std::shared_ptr<const OpenPack> pack, PackStream stream)
      : pack_(std::move(pack)), stream_(stream) {}
  absl::StatusOr<Piece> Read(uint64_t position, size_t size) override {
    return pack_->Read(stream_, position, size);
  }
  std::string Name() const override { return common::StrCat("pack ", pack_->name()); }

 private:
  const std::shared_ptr<const OpenPack> pack_;
  const PackStream stream_;
};

class NoSegment final : public SegmentBytes {
 public:
  absl::StatusOr<Piece> Read(uint64_t, size_t) override { return Piece{}; }
  std::string Name() const override { return "a segment that was merged"; }
};

}  // namespace

// The segments as of the last List.
class PackSegments final : public StreamSegments {
 public:
  PackSegments(const PackReader& reader, PackKind kind, uint64_t job, uint32_t attempt,
               PackStream stream, std::shared_ptr<const StreamSegments> before)
      : reader_(reader),
        kind_(kind),
        job_(job),
        attempt_(attempt),
        stream_(stream),
        before_(std::move(before)) {}

  absl::StatusOr<std::vector<uint64_t>> List() const override {
    ASSIGN_OR_RETURN(PackReader::Places places, reader_.PlacesOf(kind_, job_, attempt_, stream_));
    std::set<uint64_t> offsets;
    for (const auto& [offset, place] : places) offsets.insert(offset);
    if (before_ != nullptr) {
      ASSIGN_OR_RETURN(const std::vector<uint64_t> before, before_->List());
      offsets.insert(before.begin(), before.end());
    }
    std::lock_guard lock(mutex_);
    places_ = std::move(places);
    return std::vector<uint64_t>(offsets.begin(), offsets.end());
  }

  std::unique_ptr<SegmentBytes> Open(uint64_t first_offset) const override {
    std::lock_guard lock(mutex_);
    const auto found = places_.find(first_offset);
    if (found == places_.end()) {
      if (before_ != nullptr) return before_->Open(first_offset);
      return std::make_unique<NoSegment>();
    }
    const PackReader::Place& place = found->second;
    if (place.open != nullptr) return std::make_unique<OpenSegment>(place.open, stream_);
    return std::make_unique<StoredSegment>(reader_, place.key, place.position, place.length);
  }

 private:
  const PackReader& reader_;
  const PackKind kind_;
  const uint64_t job_;
  const uint32_t attempt_;
  const PackStream stream_;
  const std::shared_ptr<const StreamSegments> before_;
  mutable std::mutex mutex_;  // guards what follows
  mutable PackReader::Places places_;
};

std::vector<std::string> NamesOf(const LanePacks& packs) {
  std::vector<std::string> names;
  for (const MergedPack& merged : packs.merged) names.push_back(merged.name);
  for (const PackRun& run : packs.runs) {
    for (uint64_t number = run.first; number <= run.last; ++number)
      names.push_back(PackName(run.term, number));
  }
  return names;
}

PackReader::PackReader(Objects& objects, const PackNames& names, std::string prefix,
                       std::function<int64_t()> now_ms)
    : objects_(objects),
      names_(names),
      prefix_(std::move(prefix)),
      now_ms_(std::move(now_ms)),
      blocks_(decltype(blocks_)::kNoLimit, kCachedBytesMax),
      directories_(decltype(directories_)::kNoLimit, kDirectoriesBytesMax) {}

void PackReader::Began(std::shared_ptr<const OpenPack> pack) {
  std::lock_guard lock(mutex_);
  open_[pack->lane()].push_back(std::move(pack));
}

void PackReader::Recorded(const OpenPack& pack, const std::string& bytes) {
  const std::string key = PackKey(prefix_, pack.lane(), pack.name());
  std::lock_guard lock(mutex_);
  for (uint64_t at = 0; at < bytes.size(); at += kBlockBytes) {
    auto block = std::make_shared<const std::string>(bytes.substr(at, kBlockBytes));
    const size_t weight = block->size();
    blocks_.Put({key, at / kBlockBytes}, std::move(block), weight);
  }
  const auto lane = open_.find(pack.lane());
  if (lane == open_.end()) return;
  std::erase_if(lane->second, [&](const auto& open) { return open.get() == &pack; });
  if (lane->second.empty()) open_.erase(lane);
}

void PackReader::Forget(PackKind kind, uint64_t job) {
  std::lock_guard lock(mutex_);
  std::erase_if(
      open_, [&](const auto& entry) { return entry.first.kind == kind && entry.first.job == job; });
}

std::vector<std::shared_ptr<const OpenPack>> PackReader::OpenPacks(
    PackKind kind, uint64_t job, std::optional<uint32_t> attempt) const {
  std::vector<std::shared_ptr<const OpenPack>> packs;
  std::lock_guard lock(mutex_);
  const PackLane from{.kind = kind, .job = job, .attempt = attempt.value_or(0), .node = {}};
  for (auto at = open_.lower_bound(from); at != open_.end(); ++at) {
    const PackLane& lane = at->first;
    if (lane.kind != kind || lane.job != job || lane.attempt != attempt.value_or(lane.attempt))
      break;
    packs.insert(packs.end(), at->second.begin(), at->second.end());
  }
  return packs;
}

absl::StatusOr<std::set<uint32_t>> PackReader::Attempts(PackKind kind, uint64_t job) const {
  std::set<uint32_t> attempts;
  for (const auto& pack : OpenPacks(kind, job, std::nullopt)) attempts.insert(pack->lane().attempt);
  ASSIGN_OR_RETURN(const std::vector<LanePacks> lanes, names_.Lanes(kind, job, std::nullopt));
  for (const LanePacks& packs : lanes) attempts.insert(packs.lane.attempt);
  return attempts;
}

absl::StatusOr<std::set<PackStream>> PackReader::Streams(PackKind kind, uint64_t job,
                                                         uint32_t attempt) const {
  std::set<PackStream> streams;
  // These first: one that is recorded meanwhile is found among the others.
  for (const auto& pack : OpenPacks(kind, job, attempt)) {
    for (const PackStream& stream : pack->Streams()) streams.insert(stream);
  }
  ASSIGN_OR_RETURN(const std::vector<LanePacks> lanes, names_.Lanes(kind, job, attempt));
  for (const LanePacks& packs : lanes) {
    ASSIGN_OR_RETURN(const auto ends, Ends(packs));
    for (const auto& [stream, end] : ends) streams.insert(stream);
  }
  return streams;
}

std::shared_ptr<const StreamSegments> PackReader::Segments(
    PackKind kind, uint64_t job, uint32_t attempt, PackStream stream,
    std::shared_ptr<const StreamSegments> before) const {
  return std::make_shared<const PackSegments>(*this, kind, job, attempt, stream, std::move(before));
}

absl::StatusOr<std::map<PackStream, StreamEnd>> PackReader::Ends(const LanePacks& packs) const {
  ASSIGN_OR_RETURN(const auto newest, Newest(packs.lane, NamesOf(packs)));
  return newest == nullptr ? std::map<PackStream, StreamEnd>() : StreamEnds(*newest);
}

absl::StatusOr<std::shared_ptr<const PackDirectory>> PackReader::Newest(
    const PackLane& lane, const std::vector<std::string>& names) const {
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    auto directory = Directory(lane, *name);
    if (!IsLost(directory.status())) return directory;
  }
  return nullptr;
}

absl::StatusOr<PackReader::Places> PackReader::PlacesOf(PackKind kind, uint64_t job,
                                                        uint32_t attempt, PackStream stream) const {
  Places places;
  for (const auto& pack : OpenPacks(kind, job, attempt)) {
    const std::optional<uint64_t> begins = pack->FirstOffset(stream);
    if (begins.has_value())
      places.try_emplace(*begins, Place{.open = pack, .key = {}, .position = 0, .length = 0});
  }
  ASSIGN_OR_RETURN(const std::vector<LanePacks> lanes, names_.Lanes(kind, job, attempt));
  for (const LanePacks& packs : lanes) {
    if (stream.first < packs.first_rank || stream.first > packs.last_rank) continue;
    RETURN_IF_ERROR(AddRecorded(packs, stream, places));
  }
  return places;
}

absl::Status PackReader::AddRecorded(const LanePacks& packs, PackStream stream,
                                     Places& places) const {
  const std::vector<std::string> names = NamesOf(packs);
  // The last one names all streams: most lanes do not have this one.
  ASSIGN_OR_RETURN(const auto newest, Newest(packs.lane, names));
  if (newest == nullptr || SegmentsOf(*newest, stream).empty()) return absl::OkStatus();
  for (const std::string& name : names) {
    const auto found = Directory(packs.lane, name);
    if (IsLost(found.status())) continue;  // a gap
    RETURN_IF_ERROR(found.status());
    for (const PackSegment& segment : SegmentsOf(**found, stream)) {
      if (segment.length == 0) continue;
      places.try_emplace(segment.first_offset, Place{.open = nullptr,
                                                     .key = PackKey(prefix_, packs.lane, name),
                                                     .position = segment.position,
                                                     .length = segment.length});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const PackDirectory>> PackReader::Directory(
    const PackLane& lane, const std::string& name) const {
  const std::string key = PackKey(prefix_, lane, name);
  {
    std::lock_guard lock(mutex_);
    if (const auto* known = directories_.Find(key)) return *known;
  }
  ASSIGN_OR_RETURN(const std::string head, Read(key, 0, kPackHeadBytes));
  ASSIGN_OR_RETURN(const size_t size, PackDirectoryBytesOf(head));
  ASSIGN_OR_RETURN(const std::string bytes, Read(key, 0, size));
  ASSIGN_OR_RETURN(PackDirectory decoded, DecodePackDirectory(bytes));
  if (decoded.lane.kind != lane.kind || decoded.lane.job != lane.job ||
      decoded.lane.attempt != lane.attempt) {
    return absl::DataLossError(common::StrCat("the object ", key, " is another pack"));
  }
  auto directory = std::make_shared<const PackDirectory>(std::move(decoded));
  std::lock_guard lock(mutex_);
  return directories_.Put(key, directory, size + key.size());
}

absl::StatusOr<std::string> PackReader::Read(const std::string& key, uint64_t position,
                                             size_t size) const {
  std::string bytes;
  while (bytes.size() < size) {
    const uint64_t at = position + bytes.size();
    ASSIGN_OR_RETURN(const Block block, BlockOf(key, at / kBlockBytes));
    const uint64_t within = at % kBlockBytes;
    if (within >= block->size()) break;
    bytes.append(*block, within, size - bytes.size());
  }
  return bytes;
}

absl::Status PackReader::BeginRead() const {
  std::lock_guard lock(mutex_);
  const int64_t now_ms = now_ms_();
  const bool is_asked =
      !asked_ms_.empty() && (is_doubtful_ || now_ms - *asked_ms_.begin() > kSlowMs);
  if (now_ms >= silent_until_ms_ && !is_asked) {
    asked_ms_.insert(now_ms);
    return absl::OkStatus();
  }
  return absl::UnavailableError("the object store does not answer now");
}

absl::StatusOr<PackReader::Block> PackReader::BlockOf(const std::string& key,
                                                      uint64_t number) const {
  {
    std::lock_guard lock(mutex_);
    if (const Block* known = blocks_.Find(std::pair(key, number))) return *known;
  }
  RETURN_IF_ERROR(BeginRead());
  absl::StatusOr<std::string> bytes =
      objects_.Read(key, {.offset = number * kBlockBytes, .size = kBlockBytes});
  std::lock_guard lock(mutex_);
  asked_ms_.erase(asked_ms_.begin());
  is_doubtful_ = absl::IsUnavailable(bytes.status());
  if (is_doubtful_) silent_until_ms_ = now_ms_() + kSilentMs;
  RETURN_IF_ERROR(bytes.status());
  const size_t weight = bytes->size();
  return blocks_.Put({key, number}, std::make_shared<const std::string>(*std::move(bytes)), weight);
}

}  // namespace muster::coordinator
