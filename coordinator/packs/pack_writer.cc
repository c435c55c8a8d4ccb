#include "coordinator/packs/pack_writer.h"

#include <algorithm>
#include <tuple>

#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kForgetEveryMs = 60'000;
constexpr int64_t kPutAgainMs = 3'600'000;
constexpr size_t kMergedBytesMin = 1 << 20;
constexpr std::chrono::milliseconds kRecordAgainAfter{500};
constexpr std::chrono::milliseconds kOpenAgainAfter{1'000};
constexpr std::chrono::minutes kDoomAgainAfter{1};

// 1 s, then longer.
std::chrono::milliseconds PutAgainAfter(int tries) {
  return std::chrono::milliseconds(1'000 << std::min(tries, 4));
}

}  // namespace

PackWriter::PackWriter(PackPlace place, PackReader& reader, PackTurns& turns, PackPace pace)
    : place_(std::move(place)), reader_(reader), turns_(turns), pace_(pace) {
  turns_.Begin([this] { return AfterTasks(); });
}

StreamEnd PackWriter::Lane::End(PackStream stream) const {
  const auto found = ends_.find(stream);
  return found == ends_.end() ? StreamEnd{} : found->second;
}

absl::Status PackWriter::LaneStart::Continue(const LanePacks& packs, const PackReader& reader) {
  ASSIGN_OR_RETURN(const auto recorded, reader.Ends(packs));
  for (const auto& [stream, end] : recorded) ends[stream] = end;
  runs = packs.runs;
  return absl::OkStatus();
}

void PackWriter::PostAfter(Pool pool, std::chrono::milliseconds after, std::function<void()> task) {
  turns_.PostTo(
      pool, [this, task = std::move(task)] { Post(task); }, after);
}

void PackWriter::Settle() {
  // What was posted before is handled by then. What arrives meanwhile is not waited for.
  const auto until = std::make_shared<uint64_t>(UINT64_MAX);
  Post([this, until] {
    for (auto& [key, lane] : lanes_) Close(lane);
    std::lock_guard lock(mutex_);
    *until = begun_;
    settled_.notify_all();
  });
  std::unique_lock lock(mutex_);
  settled_.wait_for(lock, kSettleWithin, [&] { return over_ >= *until; });
}

void PackWriter::Stop() {
  if (!is_stopping_.exchange(true)) turns_.Stop();
}

int64_t PackWriter::AfterTasks() {
  CloseDue();
  ForgetIdle();
  return due_.empty() ? 0 : due_.begin()->first;
}

// ---------------------------------------------------------------- lanes

void PackWriter::Use(const PackLane& key, std::function<void(Lane&)> use,
                     std::function<void()> drop) {
  const auto [found, is_new] = lanes_.try_emplace(key);
  Lane& lane = found->second;
  lane.used_ms_ = turns_.NowMs();
  if (lane.is_open_) return use(lane);
  lane.waiting_.push_back({std::move(use), std::move(drop)});
  if (!is_new) return;
  lane.key_ = key;
  Open(lane);
}

void PackWriter::Open(Lane& lane) {
  turns_.PostTo(Pool::kStore, [this, key = lane.key_] {
    if (is_stopping_) return;
    Post([this, key, start = openers_.at(key.kind)(key)] { Opened(key, start); });
  });
}

void PackWriter::Opened(const PackLane& key, absl::StatusOr<LaneStart> start) {
  const auto found = lanes_.find(key);
  if (found == lanes_.end() || found->second.is_open_) return;  // its job was removed
  Lane& lane = found->second;
  if (!start.ok()) {
    Trouble(start.status());
    return PostAfter(Pool::kStore, kOpenAgainAfter, [this, key] {
      if (const auto waiting = lanes_.find(key); waiting != lanes_.end()) Open(waiting->second);
    });
  }
  lane.ends_ = std::move(start->ends);
  lane.extra_ = std::move(start->extra);
  for (const PackRun& run : start->runs) {
    lane.unmerged_ += run.last + 1 - run.first;
    // The lane was forgotten in between.
    if (run.term == place_.term) lane.next_number_ = run.last + 1;
  }
  if (key.kind == PackKind::kLogs) job_bytes_[key.job] = start->job_bytes;
  lane.is_open_ = true;
  for (const Lane::Waiting& each : std::exchange(lane.waiting_, {})) each.use(lane);
  MergeLater(lane);
}

void PackWriter::ForgetIdle() {
  const int64_t now_ms = turns_.NowMs();
  if (now_ms < next_forget_ms_) return;
  next_forget_ms_ = now_ms + std::min(kForgetEveryMs, pace_.idle.count());
  std::erase_if(lanes_, [&](const auto& entry) {
    const Lane& lane = entry.second;
    return lane.is_open_ && lane.pack_ == nullptr && lane.under_way_.empty() && !lane.is_merging_ &&
           now_ms - lane.used_ms_ > pace_.idle.count();
  });
}

// ---------------------------------------------------------------- the open pack

absl::Status PackWriter::Append(Lane& lane, PackStream stream,
                                const std::vector<NewRecord>& records) {
  if (lane.ends_.size() >= kPackSegmentsMax && !lane.ends_.contains(stream))
    return absl::OutOfRangeError(StrCat("a node has at most ", kPackSegmentsMax, " streams"));
  const bool is_new = lane.pack_ == nullptr;
  std::shared_ptr<OpenPack> pack = lane.pack_;
  if (is_new) {
    pack = std::make_shared<OpenPack>(lane.key_, PackName(place_.term, lane.next_number_));
  }
  StreamEnd end = lane.End(stream);
  RETURN_IF_ERROR(pack->Append(stream, records, end));
  lane.ends_[stream] = end;
  if (is_new) {
    ++lane.next_number_;
    lane.pack_ = pack;
    reader_.Began(pack);
    Count(1, 0);
    DueAt(lane, turns_.NowMs() + pace_.every.count());
  }
  if (pack->Bytes() >= pace_.bytes) CloseNow(lane);
  return absl::OkStatus();
}

void PackWriter::CloseNow(Lane& lane) {
  if (lane.under_way_.size() < kUnderWayMax) Close(lane);
}

void PackWriter::CloseSoon(Lane& lane) {
  if (lane.pack_ == nullptr) return;
  DueAt(lane, std::min(lane.due_ms_, turns_.NowMs() + pace_.at_end.count()));
}

void PackWriter::DueAt(Lane& lane, int64_t due_ms) {
  due_.erase({lane.due_ms_, lane.key_});
  lane.due_ms_ = due_ms;
  due_.insert({lane.due_ms_, lane.key_});
}

AfterPack* PackWriter::After(Lane& lane, const std::function<std::unique_ptr<AfterPack>()>& make) {
  std::unique_ptr<AfterPack>* after = nullptr;
  if (lane.pack_ != nullptr) {
    after = &lane.after_;
  } else if (!lane.under_way_.empty()) {
    after = &lane.under_way_.back().after;
  } else {
    return nullptr;
  }
  if (*after == nullptr) *after = make();
  return after->get();
}

void PackWriter::CloseDue() {
  const int64_t now_ms = turns_.NowMs();
  while (!due_.empty() && due_.begin()->first <= now_ms) {
    Lane& lane = lanes_.at(due_.begin()->second);
    due_.erase(due_.begin());
    Close(lane);
  }
}

void PackWriter::Close(Lane& lane) {
  if (lane.pack_ == nullptr) return;
  due_.erase({lane.due_ms_, lane.key_});
  if (lane.under_way_.size() >= kUnderWayMax) {
    lane.due_ms_ = 0;  // when one of those is recorded
    return;
  }
  std::string bytes = lane.pack_->Seal(lane.ends_);
  PutNext(lane, std::exchange(lane.pack_, nullptr), std::move(bytes), lane.next_number_ - 1,
          std::move(lane.after_));
}

void PackWriter::PutNext(Lane& lane, std::shared_ptr<OpenPack> pack, std::string bytes,
                         uint64_t number, std::unique_ptr<AfterPack> after) {
  RecordedPack record{.lane = lane.key_,
                      .term = place_.term,
                      .number = number,
                      .bytes = bytes.size(),
                      .first_rank = lane.ends_.begin()->first.first,
                      .last_rank = lane.ends_.rbegin()->first.first,
                      .note = lane.note_};
  lane.under_way_.push_back({.pack = std::move(pack),
                             .bytes = std::make_shared<const std::string>(std::move(bytes)),
                             .record = std::move(record),
                             .after = std::move(after)});
  Put(lane.key_, lane.under_way_.back(), 0);
}

absl::Status PackWriter::PutWhole(Lane& lane, PackDirectory directory, const std::string& bodies,
                                  std::unique_ptr<AfterPack> after) {
  if (lane.pack_ != nullptr || !lane.under_way_.empty())
    return absl::UnavailableError("the lane has packs on their way");
  for (const PackSegment& entry : directory.segments) {
    const auto end = lane.ends_.find(entry.stream);
    if (end == lane.ends_.end() || end->second.offset < entry.end_offset)
      return absl::FailedPreconditionError("the stream ends before this segment");
  }
  // The lane's last pack tells where all its streams end.
  for (const auto& [stream, end] : lane.ends_) {
    const bool is_reached =
        std::any_of(directory.segments.begin(), directory.segments.end(), [&](const auto& entry) {
          return entry.stream == stream && entry.end_offset == end.offset &&
                 entry.ended == end.ended;
        });
    if (!is_reached) directory.segments.push_back(WithoutBytes(stream, end));
  }
  if (directory.segments.size() > kPackSegmentsMax)
    return absl::FailedPreconditionError("the lane has too many streams");
  std::sort(directory.segments.begin(), directory.segments.end(),
            [](const PackSegment& a, const PackSegment& b) {
              return std::tie(a.stream, a.first_offset, a.end_offset) <
                     std::tie(b.stream, b.first_offset, b.end_offset);
            });
  const size_t begin = PackDirectoryBytes(directory.segments.size());
  for (PackSegment& entry : directory.segments) {
    if (entry.length > 0) entry.position += begin;
  }
  Count(1, 0);
  PutNext(lane, nullptr, EncodePackDirectory(directory) + bodies, lane.next_number_++,
          std::move(after));
  return absl::OkStatus();
}

// ---------------------------------------------------------------- to the store

void PackWriter::Put(const PackLane& lane, const Lane::UnderWay& pack, int tries) {
  const auto put = [this, lane, bytes = pack.bytes, number = pack.record.number,
                    key = PackKey(place_.prefix, lane, PackName(place_.term, pack.record.number)),
                    tries] {
    if (is_stopping_) return;
    const absl::Status status = PutOnce(key, *bytes);
    if (status.ok()) return Post([this, lane, number] { HasPut(lane, number); });
    Trouble(status);
    Post([this, lane, number, tries] {
      const auto found = lanes_.find(lane);
      if (found == lanes_.end()) return;
      for (const Lane::UnderWay& each : found->second.under_way_) {
        if (each.record.number == number) Put(lane, each, tries + 1);
      }
    });
  };
  if (tries == 0) return turns_.PostTo(Pool::kStore, put);
  turns_.PostTo(Pool::kStore, put, PutAgainAfter(tries - 1));
}

absl::Status PackWriter::PutOnce(const std::string& key, const std::string& bytes) {
  if (is_held_) return absl::UnavailableError("the object store is not verified yet");
  const absl::Status put = place_.objects.Put(key, std::string_view(bytes));
  if (!absl::IsAlreadyExists(put)) return put;
  // By an earlier try that was not answered.
  ASSIGN_OR_RETURN(const ObjectInfo there, place_.objects.Head(key));
  if (there.size == bytes.size()) return absl::OkStatus();
  return absl::DataLossError(StrCat("the object ", key, " has ", there.size, " bytes of ",
                                    bytes.size(), ": another program has put it"));
}

void PackWriter::HasPut(const PackLane& key, uint64_t number) {
  const auto found = lanes_.find(key);
  if (found == lanes_.end()) return;
  Lane& lane = found->second;
  for (Lane::UnderWay& pack : lane.under_way_) {
    if (pack.record.number != number) continue;
    pack.is_put = true;
    pack.put_ms = turns_.NowMs();
  }
  if (!lane.under_way_.empty() && lane.under_way_.front().is_put) to_record_.insert(key);
  RecordNext();
}

// ---------------------------------------------------------------- to the state

void PackWriter::RecordNext() {
  if (is_recording_ || to_record_.empty()) return;
  // Many packs in one transaction: each is an entry in the log of several coordinators.
  if (const int64_t wait_ms = next_record_ms_ - turns_.NowMs(); wait_ms > 0) {
    if (std::exchange(is_record_due_, true)) return;
    return PostAfter(Pool::kState, std::chrono::milliseconds(wait_ms), [this] {
      is_record_due_ = false;
      RecordNext();
    });
  }
  std::vector<RecordedPack> packs;
  std::vector<PackLane> keys;
  for (const PackLane& key : std::exchange(to_record_, {})) {
    Lane& lane = lanes_.at(key);
    lane.recording_ = 0;
    for (Lane::UnderWay& pack : lane.under_way_) {
      // What is not named may be taken for garbage (periodic/object_garbage.h), long after.
      if (pack.is_put && turns_.NowMs() - pack.put_ms > kPutAgainMs) {
        pack.is_put = false;
        Put(key, pack, 0);
      }
      if (!pack.is_put) break;
      packs.push_back(pack.record);
      ++lane.recording_;
    }
    if (lane.recording_ > 0) keys.push_back(key);
  }
  if (keys.empty()) return;
  is_recording_ = true;
  next_record_ms_ = turns_.NowMs() + pace_.record_every.count();
  turns_.PostTo(Pool::kState, [this, keys = std::move(keys), packs = std::move(packs)] {
    const absl::Status status = Record(packs);
    Post([this, keys, status] { HasRecorded(keys, status); });
  });
}

absl::Status PackWriter::Record(std::vector<RecordedPack> packs) {
  std::erase_if(
      packs, [this](const RecordedPack& pack) { return IsRemoved(pack.lane.kind, pack.lane.job); });
  if (packs.empty()) return absl::OkStatus();
  return place_.names.Record(packs);
}

void PackWriter::HasRecorded(const std::vector<PackLane>& keys, const absl::Status& status) {
  if (!status.ok()) {
    Trouble(status);
    to_record_.insert(keys.begin(), keys.end());
    std::erase_if(to_record_, [this](const PackLane& key) { return !lanes_.contains(key); });
    return PostAfter(Pool::kState, kRecordAgainAfter, [this] {
      is_recording_ = false;
      RecordNext();
    });
  }
  is_recording_ = false;
  for (const PackLane& key : keys) {
    if (const auto found = lanes_.find(key); found != lanes_.end()) TakeRecorded(found->second);
  }
  RecordNext();
}

void PackWriter::TakeRecorded(Lane& lane) {
  for (; lane.recording_ > 0; --lane.recording_) {
    Lane::UnderWay pack = std::move(lane.under_way_.front());
    lane.under_way_.pop_front();
    if (pack.pack != nullptr) reader_.Recorded(*pack.pack, *pack.bytes);
    if (lane.key_.kind == PackKind::kLogs) job_bytes_[lane.key_.job] += pack.record.bytes;
    if (pack.after != nullptr) pack.after->Recorded();
    ++lane.unmerged_;
    Count(0, 1);
  }
  if (!lane.under_way_.empty() && lane.under_way_.front().is_put) to_record_.insert(lane.key_);
  if (lane.pack_ != nullptr &&
      (lane.pack_->Bytes() >= pace_.bytes || lane.due_ms_ <= turns_.NowMs())) {
    Close(lane);
  }
  MergeLater(lane);
  TrimLater(lane.key_);
}

void PackWriter::MergeLater(Lane& lane) {
  if (lane.is_merging_ || lane.unmerged_ < pace_.merged) return;
  lane.is_merging_ = true;
  turns_.PostTo(Pool::kMerge, [this, key = lane.key_] {
    absl::StatusOr<std::optional<size_t>> merged = std::nullopt;
    if (!is_stopping_) {
      // What a quota removes are whole packs.
      const uint64_t most =
          std::clamp<uint64_t>(QuotaOf(key) / 8, kMergedBytesMin, kMergedBytesMax);
      merged = MergeOldest(place_, reader_, key, pace_.merged, most, NameOfMerged());
    }
    Post([this, key, merged] {
      const auto found = lanes_.find(key);
      if (found == lanes_.end()) return;
      Lane& now = found->second;
      now.is_merging_ = false;
      if (!merged.ok()) {
        Trouble(merged.status());
        return;  // again after the next pack
      }
      if (!merged->has_value()) {
        now.unmerged_ = 0;  // a quota took them
        return;
      }
      now.unmerged_ -= std::min<uint64_t>(**merged, now.unmerged_);
      MergeLater(now);
    });
  });
}

std::string PackWriter::NameOfMerged() { return MergedPackName(place_.term, ++merges_); }

// ---------------------------------------------------------------- quota

void PackWriter::KeepAtMost(uint64_t job, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  keep_[job] = bytes;
}

uint64_t PackWriter::QuotaOf(const PackLane& lane) const {
  uint64_t most = pace_.logs_bytes == 0 ? UINT64_MAX : pace_.logs_bytes;
  if (lane.kind != PackKind::kLogs) return UINT64_MAX;
  std::lock_guard lock(mutex_);
  const auto known = keep_.find(lane.job);
  return known == keep_.end() ? most : std::min(most, known->second);
}

// To a little less than the quota, so that it is not due again at once.
void PackWriter::TrimLater(const PackLane& lane) {
  if (lane.kind != PackKind::kLogs) return;
  const uint64_t job = lane.job;
  const uint64_t quota = QuotaOf(lane);
  if (job_bytes_[job] <= quota || !trimming_.insert(job).second) return;
  turns_.PostTo(Pool::kMerge, [this, job, quota] {
    absl::StatusOr<uint64_t> freed = 0;
    absl::StatusOr<uint64_t> left = place_.names.BytesOf(PackKind::kLogs, job);
    if (!is_stopping_ && left.ok() && *left > quota) {
      freed = TrimOldest(place_, reader_, job, *left - quota + quota / 8, NameOfMerged());
      left = place_.names.BytesOf(PackKind::kLogs, job);
    }
    Post([this, job, freed, left] {
      trimming_.erase(job);
      const auto known = job_bytes_.find(job);
      if (known == job_bytes_.end()) return;
      if (left.ok()) known->second = *left;
      if (!freed.ok()) return Trouble(freed.status());
      if (*freed == 0) return;  // again after the next pack
      common::LogInfo(StrCat("the output of job ", job, " has reached its quota: its oldest ",
                             common::HumanBytes(*freed), " are removed"));
      TrimLater({.kind = PackKind::kLogs, .job = job, .attempt = 0, .node = {}});
    });
  });
}

// ---------------------------------------------------------------- removal

void PackWriter::Remove(PackKind kind, uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert({kind, job});
  }
  Post([this, kind, job] { Drop(kind, job); });
  reader_.Forget(kind, job);
  // Where packs are recorded: after those that are being recorded now, before those that are looked at again.
  auto done = std::make_shared<std::promise<void>>();
  const std::future<void> is_done = done->get_future();
  Doom(kind, job, std::move(done));
  is_done.wait();  // or until the task is dropped, at a stop
}

// A lane at a time, so that what is to be recorded has its turn.
void PackWriter::Doom(PackKind kind, uint64_t job, std::shared_ptr<std::promise<void>> done,
                      std::chrono::milliseconds after) {
  const auto doom = [this, kind, job, done = std::move(done)] {
    if (is_stopping_) return;
    const absl::StatusOr<bool> more = place_.names.DoomSome(kind, job);
    if (more.ok()) return *more ? Doom(kind, job, done) : void();
    common::LogWarning(StrCat("packs of a removed job are kept for now job=", job, " reason=\"",
                              common::MessageOf(more.status()), "\""));
    Doom(kind, job, nullptr, kDoomAgainAfter);
  };
  turns_.PostTo(Pool::kState, doom, after);
}

bool PackWriter::IsRemoved(PackKind kind, uint64_t job) const {
  std::lock_guard lock(mutex_);
  return removed_.contains({kind, job});
}

void PackWriter::Drop(PackKind kind, uint64_t job) {
  const PackLane from{.kind = kind, .job = job, .attempt = 0, .node = {}};
  for (auto at = lanes_.lower_bound(from);
       at != lanes_.end() && at->first.kind == kind && at->first.job == job;) {
    Lane& lane = at->second;
    for (const Lane::Waiting& each : lane.waiting_) each.drop();
    for (const Lane::UnderWay& pack : lane.under_way_) {
      if (pack.after != nullptr) pack.after->Dropped();
    }
    if (lane.after_ != nullptr) lane.after_->Dropped();
    due_.erase({lane.due_ms_, lane.key_});
    to_record_.erase(lane.key_);
    Count(0, lane.under_way_.size() + (lane.pack_ == nullptr ? 0 : 1));
    at = lanes_.erase(at);
  }
  // What was begun between the two.
  reader_.Forget(kind, job);
  if (kind == PackKind::kLogs) job_bytes_.erase(job);
}

void PackWriter::Count(uint64_t begun, uint64_t over) {
  std::lock_guard lock(mutex_);
  begun_ += begun;
  over_ += over;
  settled_.notify_all();
}

void PackWriter::Trouble(const absl::Status& why) {
  if (is_stopping_ || absl::IsCancelled(why)) return;
  troubles_.Warn({.code = "JC1642",
                  .what = "output and metrics wait in the workers' spools until the object store "
                          "and the state take them",
                  .why = common::MessageOf(why),
                  .fix = "none needed if the store is only away for now; otherwise look at its "
                         "address, credentials and space"});
}

}  // namespace muster::coordinator
