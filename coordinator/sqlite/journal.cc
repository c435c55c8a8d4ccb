#include "coordinator/sqlite/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/headroom.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/replica_tables.h"
#include "coordinator/sqlite/journal_writer.h"
#include "coordinator/sqlite/lost_database.h"
#include "coordinator/sqlite/replay.h"
#include "coordinator/sqlite/schema.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr auto kFullDiskRetry = std::chrono::milliseconds(250);
constexpr int kTriesAtEnds = 12;  // at a start or a stop, if the database is locked

class SqliteJournal final : public Journal {
 public:
  SqliteJournal(const Paths& paths, std::shared_ptr<WriteTurns> turns)
      : paths_(paths),
        turns_(std::move(turns)),
        headroom_(paths.Headroom()),
        last_headroom_(paths.LastHeadroom(), Headroom::kLastBytes) {}
  ~SqliteJournal() override { Stop().IgnoreError(); }

  absl::Status Open(LivedClock* clock, Carried carried);
  uint64_t Epoch() const override { return epoch_; }
  std::string ClusterId() const override { return cluster_id_; }
  std::string Place() const override { return paths_.Root(); }
  absl::Status Replay(const ReplayCallbacks& sink) override;
  void Start(JournalCallbacks observer) override;
  void Append(JournalRecord record) override;
  void UseLastReserve() override { may_use_last_ = true; }
  size_t PendingBytes() const override { return pending_bytes_; }
  absl::Status Stop() override;

 private:
  // Waits out a lock of another process for a while.
  absl::Status PrepareUnlocked(LivedClock* clock);
  absl::Status PrepareTables(LivedClock* clock);
  absl::Status RefuseCopy();
  absl::Status RaiseEpoch();
  // In a transaction.
  absl::Status Write(const std::string& sql);
  absl::Status CountLives(LivedClock* clock);
  // Directories of older versions get one at their next start.
  absl::Status KeepClusterId();
  absl::Status Damaged(const std::string& finding) {
    return DamagedDatabase(paths_.Database(), finding);
  }
  absl::Status CannotRecord(const absl::Status& why) const {
    return MakeProblem(why.code(), {.code = "JC1602",
                                    .what = StrCat("cannot record in ", paths_.Database()),
                                    .why = std::string(why.message()),
                                    .fix = "check the disk, then restart the coordinator: nothing "
                                           "that was acknowledged is lost"});
  }
  void Run();
  // Commits until it succeeds; waits out a full disk, a lack of descriptors, and another process that
  // has the database. False: failed for good.
  bool CommitGroup(const std::vector<JournalRecord>& group);
  // DEADLINE_EXCEEDED: another process still has the database.
  absl::Status CommitInTurn(const std::vector<JournalRecord>& group);
  absl::Status WhyNoTurn() const;
  absl::Status WhyStuck() const;
  void Stuck(const absl::Status& why);
  void LeaveStuck();
  void SayHighWater(const std::vector<JournalRecord>& group);
  void KeepHighWater(uint64_t event);
  bool ReleaseLast();
  void MaybeLeaveFullDisk();

  // Set once.
  const Paths paths_;
  const std::shared_ptr<WriteTurns> turns_;
  uint64_t epoch_ = 0;
  std::string cluster_id_;
  JournalCallbacks observer_;

  // Used by the journal thread only.
  std::unique_ptr<Database> database_;
  std::unique_ptr<JournalWriter> writer_;
  Headroom headroom_;
  Headroom last_headroom_;
  common::UniqueFd high_water_;
  bool disk_full_ = false;
  bool is_stuck_ = false;
  RateLimitedLog waits_;

  std::atomic<size_t> pending_bytes_ = 0;
  std::atomic<bool> may_use_last_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<JournalRecord> queue_;
  bool stopping_ = false;
  absl::Status failure_;
  std::thread thread_;
};

absl::Status SqliteJournal::Open(LivedClock* clock, Carried carried) {
  const std::string path = paths_.Database();
  RETURN_IF_ERROR(RefuseLostDatabase(paths_));
  absl::StatusOr<std::unique_ptr<Database>> opened =
      Database::Open(path, Database::Mode::kReadWrite, turns_->Timeout());
  if (!opened.ok()) {
    return MakeProblem(opened.status().code(),
                       {.code = "JC1602",
                        .what = StrCat("cannot open ", path),
                        .why = std::string(opened.status().message()),
                        .fix = "check that the directory exists and that you own it"});
  }
  database_ = *std::move(opened);
  headroom_.Reserve();
  last_headroom_.Reserve();
  absl::Status status = PrepareUnlocked(clock);
  // The disk filled up while the daemon was down, which is a reason to use the reserve.
  if (absl::IsResourceExhausted(status) && headroom_.Release()) {
    disk_full_ = true;
    status = PrepareUnlocked(clock);
  }
  if (absl::IsResourceExhausted(status)) {
    return MakeProblem(absl::StatusCode::kResourceExhausted,
                       {.code = "JC1605",
                        .what = StrCat("the disk of ", path, " is full"),
                        .fix = "free space on it, then restart the coordinator"});
  }
  if (!status.ok() && common::CodeOf(status).empty()) return CannotRecord(status);
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(writer_, JournalWriter::Make(*database_, epoch_, carried, turns_->Log()));
  ASSIGN_OR_RETURN(high_water_,
                   common::OpenRegular(paths_.HighWater(), O_RDWR | O_CREAT | O_NOFOLLOW));
  return absl::OkStatus();
}

absl::Status SqliteJournal::PrepareUnlocked(LivedClock* clock) {
  absl::Status status;
  for (int tries = 0; tries < kTriesAtEnds; ++tries) {
    const std::optional<WriteTurns::Turn> turn = turns_->TakeForJournal();
    status = turn.has_value() ? PrepareTables(clock) : WhyNoTurn();
    if (!absl::IsDeadlineExceeded(status)) return status;
    waits_.Warn(common::ProblemOf(status));
  }
  return status;
}

absl::Status SqliteJournal::PrepareTables(LivedClock* clock) {
  RETURN_IF_ERROR(PrepareSchema(*database_, paths_.Database()));
  if (turns_->Log() == nullptr) RETURN_IF_ERROR(RefuseCopy());
  RETURN_IF_ERROR(RaiseEpoch());
  RETURN_IF_ERROR(CountLives(clock));
  return KeepClusterId();
}

// Its changes would be in no log, and the copy would differ from all others.
absl::Status SqliteJournal::RefuseCopy() {
  ASSIGN_OR_RETURN(const ReplicaMark mark, ReadReplicaMark(*database_));
  if (mark.log.empty()) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1631",
                      .what = StrCat(paths_.Database(), " is a copy of a state in etcd"),
                      .why = "it belongs to one of several coordinators",
                      .fix = "start it with their --state; or move the state here: "
                             "muster-coordinator migrate --from etcd://… --to DIR"});
}

absl::Status SqliteJournal::RaiseEpoch() {
  RETURN_IF_ERROR(Write("UPDATE meta SET value = value + 1 WHERE key = 'epoch'"));
  ASSIGN_OR_RETURN(const int64_t epoch,
                   database_->Scalar("SELECT value FROM meta WHERE key = 'epoch'"));
  if (epoch <= 0) return Damaged("the table meta has no epoch");
  epoch_ = static_cast<uint64_t>(epoch);
  return absl::OkStatus();
}

absl::Status SqliteJournal::Write(const std::string& sql) {
  return Transact(
      *database_, [&] { return database_->Execute(sql); }, turns_->Log());
}

absl::Status SqliteJournal::CountLives(LivedClock* clock) {
  ASSIGN_OR_RETURN(const int64_t newest, NewestLife(*database_));
  if (clock != nullptr) clock->RaiseTo(newest);
  return Write(BeginningOfLives(clock == nullptr ? newest : clock->Read().lived_ms));
}

absl::Status SqliteJournal::KeepClusterId() {
  const uint64_t fresh = common::Random64() >> 1;  // SQLite's integers are signed
  RETURN_IF_ERROR(Write(StrCat("INSERT OR IGNORE INTO meta VALUES('cluster', ", fresh, ")")));
  ASSIGN_OR_RETURN(const int64_t kept,
                   database_->Scalar("SELECT value FROM meta WHERE key = 'cluster'"));
  cluster_id_ = absl::StrFormat("%016x", kept);
  return absl::OkStatus();
}

absl::Status SqliteJournal::Replay(const ReplayCallbacks& sink) {
  ASSIGN_OR_RETURN(const uint64_t last, ReplayDatabase(*database_, paths_.Database(), sink));
  RETURN_IF_ERROR(CheckHighWater(paths_, last));
  // A kill at the first event leaves it empty, and a person may have deleted it.
  if (last > 0) KeepHighWater(last);
  return absl::OkStatus();
}

void SqliteJournal::Start(JournalCallbacks observer) {
  observer_ = std::move(observer);
  if (disk_full_) observer_.disk_full(true);
  thread_ = std::thread([this] { Run(); });
}

void SqliteJournal::Append(JournalRecord record) {
  pending_bytes_ += PendingBytesOf(record);
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(record));
  }
  wake_.notify_one();
}

absl::Status SqliteJournal::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  writer_.reset();
  // A reader may still be open, in which case closing alone would leave the WAL behind.
  if (database_ != nullptr && turns_->TakeForJournal().has_value())
    database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)").IgnoreError();
  turns_->WithdrawJournal();
  database_.reset();
  std::lock_guard lock(mutex_);
  return failure_;
}

void SqliteJournal::Run() {
  std::vector<JournalRecord> group;
  while (true) {
    bool idle = false;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return !queue_.empty() || stopping_; };
      if (disk_full_) {
        idle = !wake_.wait_for(lock, kFullDiskRetry, ready);
      } else {
        wake_.wait(lock, ready);
      }
      if (queue_.empty() && stopping_) return;
      group.swap(queue_);
    }
    if (!group.empty() && !CommitGroup(group)) return;
    size_t bytes = 0;
    for (const JournalRecord& record : group) bytes += PendingBytesOf(record);
    pending_bytes_ -= bytes;
    if (!group.empty()) {
      SayHighWater(group);
      observer_.durable(group.back().turn);
    }
    if (disk_full_ || idle) MaybeLeaveFullDisk();
    group.clear();
  }
}

bool SqliteJournal::CommitGroup(const std::vector<JournalRecord>& group) {
  int tries_to_stop = 0;
  while (true) {
    const absl::Status status = CommitInTurn(group);
    if (status.ok()) {
      LeaveStuck();
      return true;
    }
    const bool is_busy = absl::IsDeadlineExceeded(status);
    if (!is_busy && !IsShortage(status)) {
      absl::Status failure = CannotRecord(status);
      {
        std::lock_guard lock(mutex_);
        failure_ = failure;
      }
      observer_.failed(failure);
      return false;
    }
    const bool is_full = absl::IsResourceExhausted(status);
    if (is_full && !disk_full_) {
      disk_full_ = true;
      observer_.disk_full(true);
    }
    // The log that other coordinators follow says itself why it has no room.
    const bool is_disk = is_full && common::CodeOf(status).empty();
    if (is_disk && (headroom_.Release() || ReleaseLast())) continue;
    if (is_full) {
      Stuck(is_disk ? WhyStuck() : status);
    } else if (is_busy) {
      waits_.Warn(common::ProblemOf(status));
      Stuck(status);
    } else {
      waits_.Warn({.code = "JC1612",
                   .what = "the journal is waiting for a free descriptor",
                   .why = std::string(status.message()),
                   .fix = "raise the limit of open files (LimitNOFILE)"});
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, is_busy ? std::chrono::milliseconds(0) : kFullDiskRetry,
                   [this] { return stopping_; });
    if (!stopping_ || (is_busy && ++tries_to_stop < kTriesAtEnds)) continue;
    failure_ = is_full ? MakeProblem(absl::StatusCode::kResourceExhausted,
                                     {.code = "JC1605",
                                      .what = StrCat("the disk of ", paths_.Database(), " is full"),
                                      .fix = FixOfFullDisk(paths_.Root())})
                       : status;
    return false;
  }
}

absl::Status SqliteJournal::CommitInTurn(const std::vector<JournalRecord>& group) {
  const std::optional<WriteTurns::Turn> turn = turns_->TakeForJournal();
  return turn.has_value() ? writer_->Commit(group) : WhyNoTurn();
}

absl::Status SqliteJournal::WhyNoTurn() const {
  return MakeProblem(
      absl::StatusCode::kDeadlineExceeded,
      {.code = "JC1613",
       .what = StrCat("another write of this coordinator into ", paths_.Database(),
                      " has not ended for more than ", turns_->Timeout().count(), " ms"),
       .fix = "look at the disk, which does not finish its writes (dmesg, iostat -x); waiting "
              "events are recorded as soon as it does"});
}

void SqliteJournal::Stuck(const absl::Status& why) {
  is_stuck_ = true;
  observer_.stuck(why);
}

void SqliteJournal::LeaveStuck() {
  if (!is_stuck_) return;
  is_stuck_ = false;
  // The last reserve may have been requested although the disk was not full.
  may_use_last_ = false;
  observer_.stuck(absl::OkStatus());
}

absl::Status SqliteJournal::WhyStuck() const {
  absl::Status full = headroom_.CheckRoom();
  if (!full.ok()) return full;
  return MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1605",
       .what = StrCat("the disk of ", paths_.Root(),
                      " was full and has room again; pending events are being recorded"),
       .fix = "try again"});
}

// Not synced: the file survives a killed process, and after a power failure an older mark only
// makes the check weaker.
void SqliteJournal::SayHighWater(const std::vector<JournalRecord>& group) {
  for (auto record = group.rbegin(); record != group.rend(); ++record) {
    if (record->events == nullptr || record->events->empty()) continue;
    return KeepHighWater(record->events->back().seq());
  }
}

void SqliteJournal::KeepHighWater(uint64_t event) {
  const std::string text = HighWaterText(event);
  // A failed write is detected at the next start.
  (void)!pwrite(high_water_.get(), text.data(), text.size(), 0);
}

bool SqliteJournal::ReleaseLast() {
  return may_use_last_.exchange(false) && last_headroom_.Release();
}

void SqliteJournal::MaybeLeaveFullDisk() {
  if (!disk_full_ || !headroom_.HasRoomAgain() || !headroom_.Reserve()) return;
  last_headroom_.Reserve();
  disk_full_ = false;
  observer_.disk_full(false);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(const Paths& paths, LivedClock* clock,
                                                           std::shared_ptr<WriteTurns> turns,
                                                           Carried carried) {
  auto journal = std::make_unique<SqliteJournal>(paths, std::move(turns));
  RETURN_IF_ERROR(journal->Open(clock, carried));
  return journal;
}

}  // namespace muster::coordinator
