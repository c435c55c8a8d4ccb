#include "coordinator/packs/metric_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr PackStream kBatches{0, 0};

// Numbers one after the other, without the zeros at their end.
std::string NoteOf(const NewestMetrics& newest) {
  std::vector<int64_t> numbers = newest.Numbers();
  while (!numbers.empty() && numbers.back() == 0) numbers.pop_back();
  std::string note(numbers.size() * sizeof(int64_t), '\0');
  std::memcpy(note.data(), numbers.data(), note.size());
  return note;
}

std::optional<NewestMetrics> NewestIn(const std::string& note) {
  if (note.empty() || note.size() > NewestMetrics::kNumbers * sizeof(int64_t) ||
      note.size() % sizeof(int64_t) != 0) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers(NewestMetrics::kNumbers, 0);
  std::memcpy(numbers.data(), note.data(), note.size());
  return NewestMetrics::Of(numbers);
}

class PackMetricReader final : public SegmentMetricReader {
 public:
  PackMetricReader(const PackReader& packs, Paths paths, uint64_t job)
      : packs_(packs), paths_(std::move(paths)), job_(job) {}

 private:
  absl::StatusOr<std::vector<uint32_t>> FindAttempts() const override {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> before, MetricAttemptsBelow(paths_, job_));
    ASSIGN_OR_RETURN(std::set<uint32_t> attempts, packs_.Attempts(PackKind::kMetrics, job_));
    attempts.insert(before.begin(), before.end());
    return std::vector<uint32_t>(attempts.begin(), attempts.end());
  }
  std::shared_ptr<const StreamSegments> SegmentsOf(uint32_t attempt) const override {
    return packs_.Segments(
        PackKind::kMetrics, job_, attempt, kBatches,
        std::make_shared<const SegmentFiles>(paths_.MetricStream(job_, attempt)));
  }

  const PackReader& packs_;
  const Paths paths_;
  const uint64_t job_;
};

class MetricAcks final : public AfterPack {
 public:
  void Recorded() override { Answer(/*is_refused=*/false); }
  void Dropped() override { Answer(/*is_refused=*/true); }
  void Answer(bool is_refused) {
    for (auto& [ack, uploader, bytes] : acks_) {
      const auto alive = uploader.lock();
      if (alive == nullptr) continue;
      if (is_refused) ack.set_refused(true);
      alive->Acknowledge(ack);
      alive->Consumed(bytes);
    }
  }
  void Add(v1::MetricAck ack, const std::shared_ptr<MetricUploader>& uploader, size_t bytes) {
    acks_.push_back({std::move(ack), uploader, bytes});
  }

 private:
  struct Owed {
    v1::MetricAck ack;
    std::weak_ptr<MetricUploader> uploader;
    size_t bytes = 0;
  };
  std::vector<Owed> acks_;
};

}  // namespace

PackMetricStore::PackMetricStore(std::shared_ptr<Packs> packs, const Paths& paths,
                                 uint64_t quota_bytes)
    : packs_(std::move(packs)), paths_(paths), quota_bytes_(quota_bytes) {
  packs_->writer.OpenWith(PackKind::kMetrics, [this](const PackLane& lane) { return Open(lane); });
}

WatchToken PackMetricStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void PackMetricStore::Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) {
  const auto queued = std::make_shared<QueuedBatch>(std::move(batch), std::move(uploader));
  packs_->writer.Post([this, queued] {
    const v1::MetricBatch& taken = queued->batch;
    if (packs_->writer.IsRemoved(PackKind::kMetrics, taken.job())) return queued->Refuse();
    packs_->writer.Use(
        MetricLane(taken.job(), taken.attempt()),
        [this, queued](PackWriter::Lane& lane) { Write(lane, *queued); },
        [queued] { queued->Refuse(); });
  });
}

void PackMetricStore::Write(PackWriter::Lane& lane, QueuedBatch& queued) {
  queued.EncodeIfNeeded();
  const v1::MetricBatch& batch = queued.batch;
  MetricSources& sources = *static_cast<MetricSources*>(lane.extra().get());
  if (const absl::Status next = sources.CheckNext(batch); !next.ok()) {
    refusals_.Warn(std::string(next.message()));
    return queued.Refuse();
  }
  if (!sources.IsKnown(batch)) {
    // Before it is stored: the pack may be closed at once.
    newest_.Take(batch);
    if (const auto newest = newest_.Find(batch.job()))
      packs_->writer.SetNote(lane, NoteOf(*newest));
    if (const absl::Status status = Store(lane, queued); !status.ok()) {
      refusals_.Warn(std::string(status.message()));
      queued.uploader->Consumed(queued.bytes);
      return queued.uploader->SendAgain();
    }
    watchers_.Notify(batch.job(), batch);
  }
  sources.Take(batch);
  AfterPack* const after =
      packs_->writer.After(lane, [] { return std::make_unique<MetricAcks>(); });
  MetricAcks now;
  MetricAcks& acks = after == nullptr ? now : *static_cast<MetricAcks*>(after);
  acks.Add(AckFor(batch, sources.Newest(batch)), queued.uploader, queued.bytes);
  now.Recorded();
}

absl::Status PackMetricStore::Store(PackWriter::Lane& lane, const QueuedBatch& queued) {
  const v1::MetricBatch& batch = queued.batch;
  if (IsFull(batch.job())) {
    refusals_.Warn(MetricsAreFull(batch.job()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(packs_->writer.Append(
      lane, kBatches,
      {{.offset = lane.End(kBatches).offset, .time_us = TimeUsOf(batch), .body = queued.encoded}}));
  Add(batch.job(), queued.encoded.size() + kRecordHeadBytes);
  return absl::OkStatus();
}

absl::StatusOr<PackWriter::LaneStart> PackMetricStore::Open(const PackLane& lane) {
  PackWriter::LaneStart start;
  const auto sources = std::make_shared<MetricSources>();
  start.extra = sources;
  const SegmentFiles before(paths_.MetricStream(lane.job, lane.attempt));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, before.List());
  ASSIGN_OR_RETURN(const std::optional<LanePacks> packs, packs_->names.Find(lane));
  if (packs.has_value()) {
    RETURN_IF_ERROR(start.Continue(*packs, packs_->reader));
  } else if (!segments.empty()) {
    ASSIGN_OR_RETURN(start.ends[kBatches], EndFiles(before, SegmentIdOf(lane, kBatches)));
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, packs_->names.BytesOf(PackKind::kMetrics, lane.job));
  {
    std::lock_guard lock(mutex_);
    bytes_.emplace(lane.job, bytes);
  }
  Warm(lane.job);
  if (start.ends.empty()) return start;
  // Which batches there are, its records tell.
  MetricStreamReader reader(packs_->reader.Segments(PackKind::kMetrics, lane.job, lane.attempt,
                                                    kBatches,
                                                    std::make_shared<const SegmentFiles>(before)));
  RETURN_IF_ERROR(ReadSources(reader, *sources).status());
  return start;
}

void PackMetricStore::Add(uint64_t job, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (const auto known = bytes_.find(job); known != bytes_.end()) known->second += bytes;
}

bool PackMetricStore::IsFull(uint64_t job) {
  if (quota_bytes_ == 0) return false;
  {
    std::lock_guard lock(mutex_);
    if (const auto known = bytes_.find(job); known != bytes_.end())
      return known->second >= quota_bytes_;
  }
  const absl::StatusOr<uint64_t> bytes = packs_->names.BytesOf(PackKind::kMetrics, job);
  return bytes.ok() && *bytes >= quota_bytes_;
}

void PackMetricStore::DecorateFinished(v1::JobSummary& summary) {
  newest_.Choose(summary.id(), summary.metric());
  if (!newest_.Find(summary.id()).has_value()) Warm(summary.id());
  newest_.Decorate(summary);
}

std::unique_ptr<MetricReader> PackMetricStore::Read(uint64_t job) const {
  return std::make_unique<PackMetricReader>(packs_->reader, paths_, job);
}

absl::StatusOr<NewestMetrics> PackMetricStore::FindNewest(uint64_t job) const {
  ASSIGN_OR_RETURN(const std::vector<LanePacks> lanes,
                   packs_->names.Lanes(PackKind::kMetrics, job, std::nullopt));
  // Of the newest attempt that has any; the highest step may be an older one's.
  std::optional<NewestMetrics> noted;
  for (const LanePacks& packs : lanes) {
    std::optional<NewestMetrics> newest = NewestIn(packs.note);
    if (!newest.has_value()) continue;
    if (noted.has_value()) newest->step = std::max(newest->step, noted->step);
    noted = newest;
  }
  if (noted.has_value()) return *noted;
  PackMetricReader reader(packs_->reader, paths_, job);
  return ReadNewest(reader, newest_.Nothing(job));
}

void PackMetricStore::Warm(uint64_t job) {
  const absl::StatusOr<NewestMetrics> found = FindNewest(job);
  if (found.ok()) return newest_.Keep(job, *found);
  common::LogWarning(StrCat("cannot read the newest metrics job=", job, " reason=\"",
                            std::string(found.status().message()), "\""));
}

void PackMetricStore::Remove(uint64_t job) {
  newest_.Forget(job);
  watchers_.Forget(job);
  packs_->writer.Remove(PackKind::kMetrics, job);
  {
    std::lock_guard lock(mutex_);
    bytes_.erase(job);
  }
  if (const absl::Status status = common::RemoveTree(paths_.MetricDirectory(job)); !status.ok())
    refusals_.Warn(
        StrCat("metrics of a removed job stay on disk: ", std::string(status.message())));
}

std::string PackMetricStore::NoteFor(uint64_t job) {
  if (!newest_.Find(job).has_value()) Warm(job);
  const auto newest = newest_.Find(job);
  return newest.has_value() ? NoteOf(*newest) : "";
}

std::vector<uint64_t> PackMetricStore::Jobs() const {
  return JobsOf(packs_->names, PackKind::kMetrics, paths_.MetricRoot());
}

}  // namespace muster::coordinator
