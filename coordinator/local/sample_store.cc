#include "coordinator/local/sample_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/local/sample_reader.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// How often open buckets are checked for streams that have fallen silent.
constexpr std::chrono::milliseconds kBucketsEvery{5'000};

}  // namespace

LocalSampleStore::LocalSampleStore(const Paths& paths, uint64_t node_bytes_max,
                                   const common::Clock* clock)
    : paths_(paths),
      node_bytes_max_(node_bytes_max),
      clock_(clock == nullptr ? system_clock_ : *clock),
      thread_([this] { Run(); }) {}

void LocalSampleStore::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LocalSampleStore::Append(v1::SampleBatch batch) {
  auto shared = std::make_shared<const v1::SampleBatch>(std::move(batch));
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || removed_.contains(shared->job())) return;
    newest_.Take(shared, clock_.Read().mono_ms);
    waiting_bytes_ += shared->ByteSizeLong();
    waiting_.push_back(shared);
    while (waiting_.size() > kWaitingMax || waiting_bytes_ > kWaitingBytesMax) {
      waiting_bytes_ -= waiting_.front()->ByteSizeLong();
      waiting_.pop_front();
    }
  }
  wake_.notify_one();
  watchers_.Notify(shared->job(), *shared);
}

std::vector<NewestSample> LocalSampleStore::Newest(uint64_t job) const {
  return newest_.Find(job, clock_.Read().mono_ms);
}

WatchToken LocalSampleStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

std::unique_ptr<SampleReader> LocalSampleStore::Read(const SampleQuery& query) const {
  return std::make_unique<LocalSampleReader>(paths_, query);
}

void LocalSampleStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
    to_remove_.push_back(job);
    newest_.Forget(job);
  }
  watchers_.Forget(job);
  wake_.notify_one();
}

void LocalSampleStore::Expire() {
  {
    std::lock_guard lock(mutex_);
    expire_ = true;
  }
  wake_.notify_one();
}

void LocalSampleStore::Run() {
  FindFiles();
  while (true) {
    const Taken taken = TakeWork();
    for (const BatchPointer& batch : taken.batches) Write(*batch);
    for (const uint64_t job : taken.removed) RemoveNow(job);
    if (taken.expire) Delete(table_.Expired(clock_.Read().wall_ms));
    EndBuckets(taken.stop);
    if (taken.stop) return;
  }
}

LocalSampleStore::Taken LocalSampleStore::TakeWork() {
  std::unique_lock lock(mutex_);
  const auto ready = [this] {
    return stopping_ || expire_ || !waiting_.empty() || !to_remove_.empty();
  };
  if (streams_.empty()) {
    wake_.wait(lock, ready);
  } else {
    wake_.wait_for(lock, kBucketsEvery, ready);
  }
  Taken taken;
  taken.batches.assign(waiting_.begin(), waiting_.end());
  waiting_.clear();
  waiting_bytes_ = 0;
  taken.removed.swap(to_remove_);
  taken.expire = std::exchange(expire_, false);
  taken.stop = stopping_;
  return taken;
}

void LocalSampleStore::FindFiles() {
  const absl::Status walked =
      WalkFiles(paths_.Root(), "samples",
                {.file =
                     [this](const TreeFile& file) {
                       const std::optional<SampleFile> known = ParseSamplePath(file.path);
                       if (known.has_value()) table_.Add(*known, file.size);
                       return absl::OkStatus();
                     },
                 .odd = [](const std::string&) { return absl::OkStatus(); },
                 .unreadable = [](const std::string&, const auto&) { return absl::OkStatus(); }});
  if (!walked.ok()) complaints_.Warn(std::string(walked.message()));
}

void LocalSampleStore::Write(const v1::SampleBatch& batch) {
  {
    std::lock_guard lock(mutex_);
    if (removed_.contains(batch.job())) return;
  }
  const std::string folder = SampleNodeFolder(batch.node());
  const auto [found, is_new] = streams_.try_emplace({batch.job(), batch.attempt(), folder});
  Stream& stream = found->second;
  if (is_new) {
    for (size_t tier = 0; tier < kSampleTierCount; ++tier) {
      stream.files[tier].file = {batch.job(), batch.attempt(), folder, tier, 0};
      if (tier > 0) stream.buckets.emplace_back(kSampleTiers[tier]);
    }
  }
  stream.appended_ms = clock_.Read().mono_ms;
  v1::SampleBucket bucket;
  bucket.set_tier(kSampleTiers[0].tier);
  *bucket.mutable_last() = batch;
  bucket.set_batches(1);
  WriteBucket(stream, 0, bucket);
  for (size_t tier = 1; tier < kSampleTierCount; ++tier) {
    if (const auto ended = stream.buckets[tier - 1].Add(batch)) {
      WriteBucket(stream, tier, *ended);
    }
  }
}

void LocalSampleStore::WriteBucket(Stream& stream, size_t tier, const v1::SampleBucket& bucket) {
  OpenFile& open = stream.files[tier];
  const int64_t now_ms = clock_.Read().wall_ms;
  const bool is_full = open.bytes >= kSampleFileBytes ||
                       now_ms - open.file.begun_ms >= SampleFileSpanMs(tier) ||
                       now_ms < open.file.begun_ms;
  // Each file needs a distinct time, even two of the same millisecond.
  if (is_full) {
    open.file.begun_ms = now_ms == open.file.begun_ms ? now_ms + 1 : now_ms;
    open.bytes = 0;
  }
  const std::string record = SampleRecord(bucket);
  if (const absl::Status kept = AppendRecord(open, record); !kept.ok()) {
    return complaints_.Warn(
        {.code = "JC1605",
         .what = StrCat("samples of job ", open.file.job, " are lost"),
         .why = std::string(kept.message()),
         .fix = "free some space or inodes; training and everything else continues"});
  }
  open.bytes += record.size();
  table_.Add(open.file, record.size());
  Delete(table_.Surplus(open.file.node_folder, node_bytes_max_));
}

absl::Status LocalSampleStore::AppendRecord(OpenFile& open, const std::string& record) {
  const std::string path = StrCat(paths_.Root(), "/", open.file.Path());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, kFlags);
  if (absl::IsNotFound(file.status())) {
    RETURN_IF_ERROR(common::MakeDirectories(path.substr(0, path.rfind('/'))));
    file = common::OpenRegular(path, kFlags);
  }
  RETURN_IF_ERROR(file.status());
  return common::WriteAll(file->get(), record);
}

void LocalSampleStore::EndBuckets(bool all) {
  const int64_t now_ms = clock_.Read().mono_ms;
  const int64_t silent_since_ms = now_ms - NewestSamples::kFreshMs;
  for (auto at = streams_.begin(); at != streams_.end();) {
    Stream& stream = at->second;
    const bool is_silent = all || stream.appended_ms < silent_since_ms;
    for (size_t tier = 1; tier < kSampleTierCount; ++tier) {
      const bool is_due = is_silent || now_ms - stream.appended_ms >= kSampleBucketLateMs / 2;
      if (!is_due) continue;
      if (const auto ended = stream.buckets[tier - 1].Take()) WriteBucket(stream, tier, *ended);
    }
    at = is_silent ? streams_.erase(at) : std::next(at);
  }
  newest_.DropStale(now_ms);
}

void LocalSampleStore::RemoveNow(uint64_t job) {
  streams_.erase(streams_.lower_bound({job, 0, ""}), streams_.lower_bound({job + 1, 0, ""}));
  for (const SampleFile& file : table_.OfJob(job)) table_.Remove(file);
  const absl::Status removed = common::RemoveTree(paths_.SampleDirectory(job));
  if (removed.ok()) return;
  complaints_.Warn(StrCat("samples of a removed job stay on disk job=", job, " reason=\"",
                          std::string(removed.message()), "\""));
}

void LocalSampleStore::Delete(const std::vector<SampleFile>& files) {
  for (const SampleFile& file : files) {
    table_.Remove(file);
    const auto stream = streams_.find({file.job, file.attempt, file.node_folder});
    if (stream != streams_.end() && stream->second.files[file.tier].file == file) {
      stream->second.files[file.tier].file.begun_ms = 0;  // the next record begins another file
    }
    std::string path = StrCat(paths_.Root(), "/", file.Path());
    unlink(path.c_str());
    // Then removes its folders, up to the job's, if they are empty.
    for (int level = 0; level < 3; ++level) {
      path.resize(path.rfind('/'));
      if (rmdir(path.c_str()) != 0) break;
    }
  }
}

}  // namespace muster::coordinator
