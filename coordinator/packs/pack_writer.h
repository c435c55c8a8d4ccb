// Puts what arrives into packs, and packs into the object store: lane by lane, in order.
//
// A pack is put when it has enough bytes, or is some seconds old; several of a lane may be under way. Those that the store
// has are recorded in the state, many in one transaction, in the order of their numbers, and only then acknowledged. What
// the store does not take waits here and is tried again, and the workers are read no further.
//
// Its users run where it does (Post, Use): "the writer's thread".
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/packs/format.h"
#include "coordinator/packs/merge.h"
#include "coordinator/packs/open_pack.h"
#include "coordinator/packs/pack_reader.h"
#include "coordinator/packs/pack_turns.h"
#include "coordinator/stores/objects.h"
#include "coordinator/stores/pack_names.h"

namespace muster::coordinator {

struct PackPace {
  std::chrono::milliseconds every{3'000};  // at most so long a pack stays open
  std::chrono::milliseconds at_end{20};    // if something asks for it to be closed soon
  size_t bytes = 512 << 10;  // it is closed when it has these: half of what a stream may owe
  size_t merged = 64;        // so many packs of a lane become one
  uint64_t logs_bytes = 0;   // of one job's output that is kept; 0: no limit
  std::chrono::milliseconds record_every{200};  // at most so often something is recorded
  // A lane that gets nothing is forgotten after this long, and read again if something arrives.
  std::chrono::milliseconds idle{600'000};
};

// What its user does once a pack is recorded, or dropped as its job was removed; on the writer's thread. Neither at a stop.
class AfterPack {
 public:
  virtual ~AfterPack() = default;
  virtual void Recorded() = 0;
  virtual void Dropped() = 0;
};

class PackWriter {
 public:
  // limit: packs: of one lane on their way to the store at a time; later output waits in the next one
  static constexpr size_t kUnderWayMax = 4;
  // How long Settle waits.
  static constexpr std::chrono::seconds kSettleWithin{3};

  // The writer's thread.
  class Lane {
   public:
    const PackLane& key() const { return key_; }
    // Where the stream ends, with what is not recorded yet.
    StreamEnd End(PackStream stream) const;
    // The lane's user's own.
    const std::shared_ptr<void>& extra() const { return extra_; }

   private:
    friend class PackWriter;
    struct UnderWay {
      std::shared_ptr<OpenPack> pack;  // null: it was made elsewhere
      std::shared_ptr<const std::string> bytes;
      RecordedPack record;
      std::unique_ptr<AfterPack> after;
      bool is_put = false;
      int64_t put_ms = 0;
    };
    struct Waiting {
      std::function<void(Lane&)> use;
      std::function<void()> drop;
    };
    PackLane key_;
    bool is_open_ = false;
    std::deque<Waiting> waiting_;  // until it is open
    std::map<PackStream, StreamEnd> ends_;
    std::shared_ptr<void> extra_;
    std::string note_;
    uint64_t next_number_ = 1;
    std::shared_ptr<OpenPack> pack_;  // null: nothing arrived since the last one
    std::unique_ptr<AfterPack> after_;
    int64_t due_ms_ = 0;  // when pack_ is closed
    std::deque<UnderWay> under_way_;
    size_t recording_ = 0;  // so many of the first ones of under_way_
    uint64_t unmerged_ = 0;
    bool is_merging_ = false;
    int64_t used_ms_ = 0;
  };

  // What a lane that has packs continues from. On a pool's thread, may be slow. Its error: tried again.
  struct LaneStart {
    std::map<PackStream, StreamEnd> ends;
    std::vector<PackRun> runs;
    uint64_t job_bytes = 0;  // LanePacks.bytes, of all lanes of the job and kind
    std::shared_ptr<void> extra;

    // Where the recorded packs end, and how many there are to merge.
    absl::Status Continue(const LanePacks& packs, const PackReader& reader);
  };
  using Opener = std::function<absl::StatusOr<LaneStart>(const PackLane&)>;

  // `opener` is called after the constructor returned.
  PackWriter(PackPlace place, PackReader& reader, PackTurns& turns, PackPace pace = {});
  ~PackWriter() { Stop(); }
  // Before the first use of the kind.
  void OpenWith(PackKind kind, Opener opener) { openers_[kind] = std::move(opener); }

  // Any thread; never blocks. Dropped after Stop.
  void Post(std::function<void()> task) { turns_.Post(std::move(task)); }
  // Any thread: waits until what was taken is recorded, for kSettleWithin at most.
  void Settle();
  // What is not recorded is dropped: its senders have it.
  void Stop();
  // Any thread, may be slow: drops the job's packs. None of them is recorded afterwards.
  void Remove(PackKind kind, uint64_t job);
  bool IsRemoved(PackKind kind, uint64_t job) const;
  // Of the job's output, if it is less than PackPace.logs_bytes: beyond it the oldest packs are trimmed. Any thread.
  void KeepAtMost(uint64_t job, uint64_t bytes);

  // The writer's thread. Calls `use` now, or once the lane is open; `drop`, if its job is removed before.
  void Use(const PackLane& lane, std::function<void(Lane&)> use, std::function<void()> drop);
  // All or nothing. OUT_OF_RANGE: the lane has too many streams.
  absl::Status Append(Lane& lane, PackStream stream, const std::vector<NewRecord>& records);
  // A pack of segments that the lane's streams had elsewhere, and end behind. `directory`: of these; positions from 0, in
  // `bodies`. FAILED_PRECONDITION: they are not of this lane. UNAVAILABLE: the lane has other packs on their way.
  absl::Status PutWhole(Lane& lane, PackDirectory directory, const std::string& bodies,
                        std::unique_ptr<AfterPack> after);
  // Goes with the open pack; none: with the next one.
  void SetNote(Lane& lane, std::string note) { lane.note_ = std::move(note); }
  // Before the first use: nothing is put until Release.
  void Hold() { is_held_ = true; }
  // Any thread.
  void Release() { is_held_ = false; }
  // The open pack is closed now, unless too many are under way.
  void CloseNow(Lane& lane);
  // The open pack is closed within PackPace.at_end.
  void CloseSoon(Lane& lane);
  // Of the last pack that is not recorded; made by `make` if it has none. Null: all is recorded.
  AfterPack* After(Lane& lane, const std::function<std::unique_ptr<AfterPack>()>& make);

 private:
  using Pool = PackTurns::Pool;
  // On the writer's thread, when the pool has had its turn after that long.
  void PostAfter(Pool pool, std::chrono::milliseconds after, std::function<void()> task);
  // When it is to be called again; 0: after the next task.
  int64_t AfterTasks();
  void Open(Lane& lane);
  void Opened(const PackLane& key, absl::StatusOr<LaneStart> start);
  void DueAt(Lane& lane, int64_t due_ms);
  void CloseDue();
  void Close(Lane& lane);
  void PutNext(Lane& lane, std::shared_ptr<OpenPack> pack, std::string bytes, uint64_t number,
               std::unique_ptr<AfterPack> after);
  void Put(const PackLane& lane, const Lane::UnderWay& pack, int tries);
  absl::Status PutOnce(const std::string& key, const std::string& bytes);
  void HasPut(const PackLane& lane, uint64_t number);
  void RecordNext();
  // On the state's pool.
  absl::Status Record(std::vector<RecordedPack> packs);
  void HasRecorded(const std::vector<PackLane>& lanes, const absl::Status& status);
  void TakeRecorded(Lane& lane);
  void MergeLater(Lane& lane);
  // No limit: UINT64_MAX.
  uint64_t QuotaOf(const PackLane& lane) const;
  void TrimLater(const PackLane& lane);
  std::string NameOfMerged();
  void ForgetIdle();
  void Drop(PackKind kind, uint64_t job);
  // On the state's pool; tried until it succeeds. `done` is kept until it does, or fails once.
  void Doom(PackKind kind, uint64_t job, std::shared_ptr<std::promise<void>> done,
            std::chrono::milliseconds after = {});
  void Count(uint64_t begun, uint64_t over);
  void Trouble(const absl::Status& why);

  const PackPlace place_;
  PackReader& reader_;
  PackTurns& turns_;
  const PackPace pace_;
  std::map<PackKind, Opener> openers_;

  // The writer's thread.
  std::map<PackLane, Lane> lanes_;
  std::set<std::pair<int64_t, PackLane>> due_;
  std::set<PackLane> to_record_;  // whose first packs the store has
  bool is_recording_ = false;
  bool is_record_due_ = false;  // RecordNext will be called
  int64_t next_record_ms_ = 0;
  std::map<uint64_t, uint64_t> job_bytes_;  // of output, of jobs that have lanes here
  std::set<uint64_t> trimming_;             // jobs
  int64_t next_forget_ms_ = 0;

  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> is_held_ = false;
  std::atomic<uint64_t> merges_ = 0;
  RateLimitedLog troubles_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable settled_;
  uint64_t begun_ = 0;  // packs
  uint64_t over_ = 0;   // of them, those that are recorded or dropped
  std::set<std::pair<PackKind, uint64_t>> removed_;
  std::map<uint64_t, uint64_t> keep_;  // by job
};

}  // namespace muster::coordinator
