// Manages the streams that a store's writer appends to: which are known, which have open files,
// which need a sync and when. One thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "coordinator/segments/writer.h"
#include "coordinator/store_parts/store_queue.h"

namespace muster::coordinator {

// Stream: `SegmentWriter& File()`.
template <typename Key, typename Stream>
class OpenStreams {
 public:
  struct Callbacks {
    std::function<absl::StatusOr<Stream>(const Key&)> open;
    // Retries until there is disk space and a descriptor (StoreQueue::Patiently).
    std::function<absl::Status(const std::function<absl::Status()>&)> patiently;
    // All data appended to the stream is durable. True: it is complete and may be forgotten.
    std::function<bool(const Key&, Stream&)> synced;
    // The stream's file failed, or could not be opened (then there is no stream); data that was not synced is
    // not kept.
    std::function<void(const Key&, Stream*, const absl::Status&)> failed;
  };

  // `open_max`: streams with open files; `known_max`: streams whose state is kept in memory.
  OpenStreams(Callbacks callbacks, size_t open_max, size_t known_max)
      : callbacks_(std::move(callbacks)),
        open_max_(std::max<size_t>(open_max, 1)),
        known_max_(known_max) {}

  // Returns the stream with its file open. `is_new`: it was not known before.
  absl::StatusOr<Stream*> Use(const Key& key, bool* is_new);
  // Call it when the stream got data or owes an acknowledgement: it is synced by `due_ms`.
  void Touch(const Key& key, size_t bytes, int64_t due_ms) {
    dirty_.insert(key);
    dirty_bytes_ += bytes;
    due_ms_ = due_ms_ == 0 ? due_ms : std::min(due_ms_, due_ms);
  }
  // Syncs all dirty streams, even if the file of one of them fails.
  void Sync();
  // The stream's file failed for a reason that waiting does not fix. The next Use reopens it with the synced
  // data.
  void Fail(const Key& key, const absl::Status& why);
  int64_t DueMs() const { return due_ms_; }  // 0: nothing to sync
  size_t DirtyBytes() const { return dirty_bytes_; }

 private:
  // From this many streams on, one syncfs is cheaper than one fdatasync each.
  static constexpr size_t kSyncAllFrom = 8;

  struct Known {
    Stream stream;
    uint64_t used = 0;
  };

  absl::Status OpenFile(const Key& key, bool* is_new);
  absl::Status OpenOrReopen(const Key& key, bool* is_new);
  // Closes the least recently used files until fewer than `most` are open.
  void CloseIdle(size_t most);
  void ForgetClosed();
  // Syncs with syncfs, if that is cheaper. If it fails, the streams remain dirty, because syncfs does not
  // report which file failed.
  void SyncAll(const std::set<Key>& keys);

  const Callbacks callbacks_;
  const size_t open_max_;
  const size_t known_max_;
  std::map<Key, Known> known_;
  std::map<uint64_t, Key> open_;  // streams with open files, by their last use
  std::set<Key> dirty_;
  size_t dirty_bytes_ = 0;
  int64_t due_ms_ = 0;
  uint64_t uses_ = 0;
};

template <typename Key, typename Stream>
absl::StatusOr<Stream*> OpenStreams<Key, Stream>::Use(const Key& key, bool* is_new) {
  const auto found = known_.find(key);
  if (found != known_.end() && found->second.stream.File().IsOpen()) {
    open_.erase(found->second.used);
  } else {
    CloseIdle(open_max_);
    RETURN_IF_ERROR(callbacks_.patiently([&] { return OpenFile(key, is_new); }));
  }
  Known& known = known_.at(key);
  known.used = ++uses_;
  open_[known.used] = key;
  return &known.stream;
}

template <typename Key, typename Stream>
absl::Status OpenStreams<Key, Stream>::OpenFile(const Key& key, bool* is_new) {
  absl::Status status = OpenOrReopen(key, is_new);
  // The process ran out of descriptors: close our own files until one can be opened.
  while (absl::IsUnavailable(status) && !open_.empty()) {
    CloseIdle(open_.size());
    status = OpenOrReopen(key, is_new);
  }
  return status;
}

template <typename Key, typename Stream>
absl::Status OpenStreams<Key, Stream>::OpenOrReopen(const Key& key, bool* is_new) {
  if (const auto found = known_.find(key); found != known_.end()) {
    SegmentWriter& file = found->second.stream.File();
    const bool had_failed = file.HasFailed();
    const absl::Status status = file.Reopen();
    // The remaining state of a stream whose file failed may include data that was not kept.
    const bool is_outdated = had_failed && status.ok();
    if (!is_outdated && !absl::IsNotFound(status)) return status;
    known_.erase(found);
  }
  if (known_.size() >= known_max_) ForgetClosed();
  ASSIGN_OR_RETURN(Stream stream, callbacks_.open(key));
  known_.insert_or_assign(key, Known{std::move(stream)});
  *is_new = true;
  return absl::OkStatus();
}

template <typename Key, typename Stream>
void OpenStreams<Key, Stream>::ForgetClosed() {
  for (auto each = known_.begin(); each != known_.end();) {
    const SegmentWriter& file = each->second.stream.File();
    each = file.IsOpen() || file.HasFailed() ? std::next(each) : known_.erase(each);
  }
}

template <typename Key, typename Stream>
void OpenStreams<Key, Stream>::CloseIdle(size_t most) {
  while (open_.size() >= most && !open_.empty()) {
    const auto idle = std::find_if(open_.begin(), open_.end(), [this](const auto& each) {
      return !dirty_.contains(each.second);
    });
    if (idle == open_.end()) {
      Sync();
      continue;
    }
    known_.at(idle->second).stream.File().Close();
    open_.erase(idle);
  }
}

template <typename Key, typename Stream>
void OpenStreams<Key, Stream>::Fail(const Key& key, const absl::Status& why) {
  dirty_.erase(key);
  const auto found = known_.find(key);
  if (found == known_.end()) return callbacks_.failed(key, nullptr, why);
  Stream& stream = found->second.stream;
  if (stream.File().IsOpen()) open_.erase(found->second.used);
  stream.File().Fail();
  callbacks_.failed(key, &stream, why);
}

template <typename Key, typename Stream>
void OpenStreams<Key, Stream>::SyncAll(const std::set<Key>& keys) {
  if (keys.size() < kSyncAllFrom) return;
  if (syncfs(known_.at(*keys.begin()).stream.File().Descriptor()) != 0) return;
  for (const Key& key : keys) known_.at(key).stream.File().MarkSynced();
}

template <typename Key, typename Stream>
void OpenStreams<Key, Stream>::Sync() {
  due_ms_ = 0;
  dirty_bytes_ = 0;
  const std::set<Key> dirty = std::exchange(dirty_, {});
  SyncAll(dirty);
  for (const Key& key : dirty) {
    const auto found = known_.find(key);
    Stream& stream = found->second.stream;
    const absl::Status status = stream.File().Dirty() ? stream.File().Sync() : absl::OkStatus();
    if (!status.ok()) {
      Fail(key, status);
    } else if (callbacks_.synced(key, stream)) {
      open_.erase(found->second.used);
      known_.erase(found);
    }
  }
}

}  // namespace muster::coordinator
