#include "coordinator/packs/log_store.h"

#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/segments/files.h"
#include "coordinator/store_parts/log_pieces.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Half of what a worker may owe.
constexpr size_t kOwedMost = 2 << 20;

// As a part of an object's key.
std::string NodeInKey(const std::string& node) {
  if (node.empty()) return "unnamed";
  if (CheckObjectKey(node).ok() && node.find('/') == std::string::npos) return node;
  return StrCat("node-", common::Sha256Hex(node).substr(0, 16));
}

// Tells the senders of a pack's chunks, once per stream, how far it is durable.
class LogAcks final : public AfterPack {
 public:
  // `owed`: bytes that senders may have in flight again, are taken from it.
  explicit LogAcks(OwedBytes& owed) : owed_(owed) {}
  void Recorded() override { Answer(/*is_refused=*/false); }
  void Dropped() override { Answer(/*is_refused=*/true); }
  void Answer(bool is_refused) {
    for (auto& [key, stream] : streams_) {
      v1::LogAck ack = AckFor(key);
      // The end counts as one more byte, so that a repeated acknowledgement of the last bytes does not
      // acknowledge it.
      if (!is_refused) ack.set_durable_offset(stream.end.offset + (stream.end.ended ? 1 : 0));
      ack.set_refused(is_refused);
      for (const auto& [uploader, bytes] : stream.uploaders) {
        if (const auto alive = uploader.lock()) alive->Acknowledge(ack);
      }
      // After all acknowledgements of the stream: what is consumed lets more arrive.
      for (const auto& [uploader, bytes] : stream.uploaders) {
        const auto owed = owed_.find(uploader);
        if (owed != owed_.end() && (owed->second -= std::min(owed->second, bytes)) == 0)
          owed_.erase(owed);
        if (const auto alive = uploader.lock()) alive->Consumed(bytes);
      }
    }
  }
  void Add(const LogKey& key, const StreamEnd& end, const std::shared_ptr<LogUploader>& uploader,
           size_t bytes) {
    Stream& stream = streams_[key];
    stream.end = end;
    stream.uploaders[uploader] += bytes;
    owed_[uploader] += bytes;
  }

 private:
  struct Stream {
    StreamEnd end;
    OwedBytes uploaders;
  };
  OwedBytes& owed_;
  std::map<LogKey, Stream> streams_;
};

}  // namespace

PackLane LogLane(uint64_t job, uint32_t attempt, const std::string& node) {
  return {.kind = PackKind::kLogs, .job = job, .attempt = attempt, .node = NodeInKey(node)};
}

absl::StatusOr<std::vector<LogKey>> PackLogReader::Streams(uint64_t job,
                                                           std::optional<uint32_t> attempt) const {
  ASSIGN_OR_RETURN(std::vector<LogKey> keys, before_.Streams(job, attempt));
  ASSIGN_OR_RETURN(const std::set<uint32_t> attempts, packs_.Attempts(PackKind::kLogs, job));
  for (const uint32_t each : attempts) {
    if (each != attempt.value_or(each)) continue;
    ASSIGN_OR_RETURN(const auto streams, packs_.Streams(PackKind::kLogs, job, each));
    for (const auto& [rank, stream] : streams)
      keys.push_back({job, each, rank, static_cast<v1::LogStream>(stream)});
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::shared_ptr<const StreamSegments> PackLogReader::SegmentsOf(const LogKey& key) const {
  return packs_.Segments(PackKind::kLogs, key.job, key.attempt, StreamOf(key),
                         std::make_shared<const SegmentFiles>(paths_.LogStream(key)));
}

PackLogStore::PackLogStore(std::shared_ptr<Packs> packs, std::unique_ptr<const LogReader> before,
                           const Paths& paths)
    : packs_(std::move(packs)),
      before_(std::move(before)),
      paths_(paths),
      reader_(packs_->reader, *before_, paths) {
  packs_->writer.OpenWith(PackKind::kLogs, [this](const PackLane& lane) { return Open(lane); });
}

WatchToken PackLogStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void PackLogStore::Append(v1::LogChunk chunk, std::shared_ptr<LogUploader> uploader) {
  const auto taken = std::make_shared<const v1::LogChunk>(std::move(chunk));
  packs_->writer.Post([this, taken, uploader = std::move(uploader)] {
    if (progress_.IsRemoved(taken->job())) return Refuse(*taken, *uploader);
    packs_->writer.Use(
        LogLane(taken->job(), taken->attempt(), taken->node()),
        [this, taken, uploader](PackWriter::Lane& lane) { Write(lane, *taken, uploader); },
        [this, taken, uploader] { Refuse(*taken, *uploader); });
  });
}

void PackLogStore::Refuse(const v1::LogChunk& chunk, LogUploader& uploader) {
  v1::LogAck refused = AckFor(KeyOf(chunk));
  refused.set_refused(true);
  uploader.Acknowledge(refused);
  uploader.Consumed(chunk.ByteSizeLong());
}

void PackLogStore::Write(PackWriter::Lane& lane, const v1::LogChunk& chunk,
                         const std::shared_ptr<LogUploader>& uploader) {
  const LogKey key = KeyOf(chunk);
  const PackStream stream = StreamOf(key);
  const StreamEnd before = lane.End(stream);
  std::vector<NewRecord> records;
  if (!before.ended) {
    for (const LogPiece& piece : NewPieces(chunk, before.offset)) {
      records.push_back({.offset = piece.offset,
                         .dropped = piece.dropped,
                         .time_us = piece.time_us,
                         .end = piece.end,
                         .body = BytesOf(chunk, piece)});
    }
  }
  if (!records.empty()) {
    if (const absl::Status status = packs_->writer.Append(lane, stream, records); !status.ok()) {
      refusals_.Warn(std::string(status.message()));
      if (absl::IsOutOfRange(status)) return Refuse(chunk, *uploader);
      uploader->Consumed(chunk.ByteSizeLong());
      return uploader->SendAgain();
    }
  }
  const StreamEnd end = lane.End(stream);
  progress_.Wrote(key, end.ended);
  AfterPack* const after =
      packs_->writer.After(lane, [this] { return std::make_unique<LogAcks>(owed_); });
  if (after != nullptr) {
    static_cast<LogAcks*>(after)->Add(key, end, uploader, chunk.ByteSizeLong());
  } else {
    LogAcks now(owed_);
    now.Add(key, end, uploader, chunk.ByteSizeLong());
    now.Recorded();
  }
  if (records.empty()) return;
  watchers_.Notify(key.job, LogNews{key, before.offset == 0 && before.count == 0});
  if (end.ended) packs_->writer.CloseSoon(lane);
  // Its sender sends no more before some of it is recorded: many lanes that each wait would hold it up.
  const auto owed = owed_.find(uploader);
  if (owed != owed_.end() && owed->second > kOwedMost) packs_->writer.CloseNow(lane);
}

absl::StatusOr<PackWriter::LaneStart> PackLogStore::Open(const PackLane& lane) {
  PackWriter::LaneStart start;
  ASSIGN_OR_RETURN(const std::optional<LanePacks> packs, packs_->names.Find(lane));
  if (packs.has_value()) {
    RETURN_IF_ERROR(start.Continue(*packs, packs_->reader));
  } else {
    RETURN_IF_ERROR(AddBefore(lane, start.ends));
  }
  ASSIGN_OR_RETURN(start.job_bytes, packs_->names.BytesOf(PackKind::kLogs, lane.job));
  return start;
}

absl::Status PackLogStore::AddBefore(const PackLane& lane,
                                     std::map<PackStream, StreamEnd>& ends) const {
  ASSIGN_OR_RETURN(const std::vector<LogKey> keys, before_->Streams(lane.job, lane.attempt));
  for (const LogKey& key : keys) {
    const PackStream stream = StreamOf(key);
    ASSIGN_OR_RETURN(ends[stream],
                     EndFiles(SegmentFiles(paths_.LogStream(key)), SegmentIdOf(lane, stream)));
  }
  return absl::OkStatus();
}

uint64_t PackLogStore::StoredBytes(uint64_t job) const {
  const uint64_t before = BytesBelow(paths_.Root(), paths_.BelowRoot(paths_.LogDirectory(job)));
  return before + packs_->names.BytesOf(PackKind::kLogs, job).value_or(0);
}

void PackLogStore::Remove(uint64_t job) {
  progress_.Remove(job);
  watchers_.Forget(job);
  packs_->writer.Remove(PackKind::kLogs, job);
  if (const absl::Status status = common::RemoveTree(paths_.LogDirectory(job)); !status.ok())
    refusals_.Warn(StrCat("logs of a removed job stay on disk: ", std::string(status.message())));
}

std::vector<uint64_t> PackLogStore::Jobs() const {
  return JobsOf(packs_->names, PackKind::kLogs, paths_.LogRoot());
}

}  // namespace muster::coordinator
