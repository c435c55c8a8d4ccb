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

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/files.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/headroom.h"
#include "coordinator/said_rarely.h"
#include "coordinator/sqlite/database.h"
#include "coordinator/sqlite/journal_writer.h"
#include "coordinator/sqlite/schema.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr auto kFullDiskRetry = std::chrono::milliseconds(250);
constexpr size_t kRecordOverheadBytes = 64;

// What an append costs in memory until it is committed.
size_t BytesOf(const JournalRecord& record) {
  size_t bytes = kRecordOverheadBytes;
  if (record.events != nullptr) {
    for (const v1::Event& event : *record.events) bytes += event.ByteSizeLong();
  }
  return bytes;
}

class SqliteJournal final : public Journal {
 public:
  explicit SqliteJournal(const Paths& paths) : paths_(paths), headroom_(paths.Headroom()) {}
  ~SqliteJournal() override { Stop().IgnoreError(); }

  absl::Status Open(LivedClock* clock);
  uint64_t Epoch() const override { return epoch_; }
  std::string ClusterId() const override { return cluster_id_; }
  absl::Status Replay(const ReplaySink& sink) override;
  void Start(JournalObserver observer) override;
  void Append(JournalRecord record) override;
  size_t PendingBytes() const override { return pending_bytes_; }
  absl::Status Stop() override;

 private:
  absl::Status PrepareTables(LivedClock* clock);
  absl::Status RaiseEpoch();
  absl::Status CountLives(LivedClock* clock);
  // Directories of older versions get theirs at their next start.
  absl::Status KeepClusterId();
  absl::Status CheckHighWater(uint64_t last_seq);
  absl::Status ReplayKeys(const ReplaySink& sink);
  absl::Status ReplayEvents(const ReplaySink& sink, uint64_t after);
  absl::Status Damaged(const std::string& finding) {
    return DamagedDatabase(paths_.Database(), finding);
  }
  void Run();
  // Commits until it succeeds; a full disk and a want of descriptors are waited out. False: failed
  // for good.
  bool CommitGroup(const std::vector<JournalRecord>& group);
  absl::Status WhyStuck() const;
  void SayHighWater(const std::vector<JournalRecord>& group);
  void MaybeLeaveFullDisk();

  // Set once.
  const Paths paths_;
  uint64_t epoch_ = 0;
  std::string cluster_id_;
  JournalObserver observer_;

  // The journal thread's.
  std::unique_ptr<Database> database_;
  std::unique_ptr<JournalWriter> writer_;
  Headroom headroom_;
  common::UniqueFd high_water_;
  bool disk_full_ = false;
  bool is_stuck_ = false;
  SaidRarely waits_;

  std::atomic<size_t> pending_bytes_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<JournalRecord> queue_;
  bool stopping_ = false;
  absl::Status failure_;
  std::thread thread_;
};

absl::Status SqliteJournal::Open(LivedClock* clock) {
  const std::string path = paths_.Database();
  absl::StatusOr<std::unique_ptr<Database>> opened =
      Database::Open(path, Database::Mode::kReadWrite);
  if (!opened.ok()) {
    return MakeProblem(opened.status().code(),
                       {.code = "JC1602",
                        .what = StrCat("cannot open ", path),
                        .why = std::string(opened.status().message()),
                        .fix = "check that the directory exists and is yours"});
  }
  database_ = *std::move(opened);
  headroom_.Reserve();
  absl::Status status = PrepareTables(clock);
  // The disk ran full while nobody was here: this is what the reserve is for.
  if (absl::IsResourceExhausted(status) && headroom_.Release()) {
    disk_full_ = true;
    status = PrepareTables(clock);
  }
  if (absl::IsResourceExhausted(status)) {
    return MakeProblem(absl::StatusCode::kResourceExhausted,
                       {.code = "JC1605",
                        .what = StrCat("the disk of ", path, " is full"),
                        .fix = "free some space and start again"});
  }
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(writer_, JournalWriter::Make(*database_, epoch_));
  high_water_ =
      common::UniqueFd(open(paths_.HighWater().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!high_water_.valid()) return common::ErrnoStatus(StrCat("cannot open ", paths_.HighWater()));
  return absl::OkStatus();
}

absl::Status SqliteJournal::PrepareTables(LivedClock* clock) {
  RETURN_IF_ERROR(PrepareSchema(*database_, paths_.Database()));
  RETURN_IF_ERROR(RaiseEpoch());
  RETURN_IF_ERROR(CountLives(clock));
  return KeepClusterId();
}

absl::Status SqliteJournal::RaiseEpoch() {
  RETURN_IF_ERROR(
      database_->Execute("BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE key = 'epoch';"
                         "COMMIT"));
  ASSIGN_OR_RETURN(const int64_t epoch,
                   database_->Scalar("SELECT value FROM meta WHERE key = 'epoch'"));
  if (epoch <= 0) return Damaged("the table meta has no epoch");
  epoch_ = static_cast<uint64_t>(epoch);
  return absl::OkStatus();
}

absl::Status SqliteJournal::CountLives(LivedClock* clock) {
  ASSIGN_OR_RETURN(const int64_t newest, NewestLife(*database_));
  if (clock != nullptr) clock->RaiseTo(newest);
  return BeginLives(*database_, clock == nullptr ? newest : clock->Read().lived_ms);
}

absl::Status SqliteJournal::KeepClusterId() {
  std::random_device random;
  const uint64_t fresh = (uint64_t{random()} << 32 | random()) >> 1;  // SQLite's are signed
  RETURN_IF_ERROR(
      database_->Execute(StrCat("INSERT OR IGNORE INTO meta VALUES('cluster', ", fresh, ")")));
  ASSIGN_OR_RETURN(const int64_t kept,
                   database_->Scalar("SELECT value FROM meta WHERE key = 'cluster'"));
  cluster_id_ = absl::StrFormat("%016x", kept);
  return absl::OkStatus();
}

absl::Status SqliteJournal::Replay(const ReplaySink& sink) {
  ASSIGN_OR_RETURN(Statement newest, database_->Prepare("SELECT seq, data FROM snapshots"));
  ASSIGN_OR_RETURN(const bool has_snapshot, newest.Step());
  uint64_t after = 0;
  if (has_snapshot) {
    after = static_cast<uint64_t>(newest.Integer(0));
    const std::string_view bytes = newest.Bytes(1);
    v1::Snapshot snapshot;
    if (!snapshot.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return Damaged(StrCat("the snapshot at event ", after, " cannot be read"));
    }
    sink.snapshot(snapshot);
  }
  newest.Reset();
  absl::Status status = ReplayKeys(sink);
  if (status.ok()) status = ReplayEvents(sink, after);
  if (absl::IsDataLoss(status) && common::CodeOf(status).empty()) {
    return Damaged(std::string(status.message()));
  }
  return status;
}

absl::Status SqliteJournal::ReplayKeys(const ReplaySink& sink) {
  ASSIGN_OR_RETURN(
      Statement keys,
      database_->Prepare("SELECT owner, idempotency_key, id, spec_hash FROM jobs WHERE "
                         "idempotency_key != ''"));
  while (true) {
    ASSIGN_OR_RETURN(const bool row, keys.Step());
    if (!row) return absl::OkStatus();
    sink.key(std::string(keys.Bytes(0)), std::string(keys.Bytes(1)),
             static_cast<uint64_t>(keys.Integer(2)), static_cast<uint64_t>(keys.Integer(3)));
  }
}

absl::Status SqliteJournal::ReplayEvents(const ReplaySink& sink, uint64_t after) {
  ASSIGN_OR_RETURN(Statement events,
                   database_->Prepare("SELECT seq, event FROM events WHERE seq > ?1 ORDER BY seq"));
  events.Bind(1, static_cast<int64_t>(after));
  uint64_t last = after;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, events.Step());
    if (!row) break;
    const uint64_t seq = static_cast<uint64_t>(events.Integer(0));
    if (seq != last + 1) {
      return Damaged(StrCat("event ", last + 1, " is missing (the next one is ", seq, ")"));
    }
    last = seq;
    const std::string_view bytes = events.Bytes(1);
    v1::Event event;
    if (!event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || event.seq() != seq) {
      return Damaged(StrCat("event ", seq, " cannot be read"));
    }
    if (event.what_case() == v1::Event::WHAT_NOT_SET && !event.skippable()) {
      return MakeProblem(absl::StatusCode::kFailedPrecondition,
                         {.code = "JC1603",
                          .what = StrCat(paths_.Database(), " holds event ", seq,
                                         " of a kind that this version does not know"),
                          .fix = "start the version of muster-coordinator that wrote it"});
    }
    sink.event(event);
  }
  return CheckHighWater(last);
}

// A WAL that was cut off looks like a database that ended earlier; only this file can tell.
absl::Status SqliteJournal::CheckHighWater(uint64_t last_seq) {
  char text[24] = {};
  const ssize_t size = pread(high_water_.get(), text, sizeof text - 1, 0);
  if (size <= 0) return absl::OkStatus();
  uint64_t mark = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &mark)) return absl::OkStatus();
  if (mark <= last_seq) return absl::OkStatus();
  return MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what = StrCat(paths_.Database(), " ends at event ", last_seq, ", but event ", mark,
                      " was acknowledged: muster.db or muster.db-wal was truncated or replaced by "
                      "an older copy"),
       .fix = StrCat("restore the data directory from a backup, or delete ", paths_.HighWater(),
                     " to go on without the lost events")});
}

void SqliteJournal::Start(JournalObserver observer) {
  observer_ = std::move(observer);
  if (disk_full_) observer_.disk_full(true);
  thread_ = std::thread([this] { Run(); });
}

void SqliteJournal::Append(JournalRecord record) {
  pending_bytes_ += BytesOf(record);
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
  // A reader may still be open, so closing alone would leave the WAL behind.
  if (database_ != nullptr) database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)").IgnoreError();
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
    for (const JournalRecord& record : group) bytes += BytesOf(record);
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
  while (true) {
    const absl::Status status = writer_->Commit(group);
    if (status.ok()) {
      if (is_stuck_) observer_.stuck(absl::OkStatus());
      is_stuck_ = false;
      return true;
    }
    if (!IsShortage(status)) {
      absl::Status failure = MakeProblem(
          status.code(),
          {.code = "JC1602",
           .what = StrCat("cannot record in ", paths_.Database()),
           .why = std::string(status.message()),
           .fix = "check the disk, then start again: nothing that was acknowledged is lost"});
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
    if (is_full && headroom_.Release()) continue;
    if (is_full) {
      is_stuck_ = true;
      observer_.stuck(WhyStuck());
    } else {
      waits_.Warn({.code = "JC1612",
                   .what = "the journal waits for a free descriptor",
                   .why = std::string(status.message()),
                   .fix = "raise the limit of open files (LimitNOFILE)"});
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kFullDiskRetry, [this] { return stopping_; });
    if (!stopping_) continue;
    failure_ = is_full ? MakeProblem(absl::StatusCode::kResourceExhausted,
                                     {.code = "JC1605",
                                      .what = StrCat("the disk of ", paths_.Database(), " is full"),
                                      .fix = "free some space"})
                       : status;
    return false;
  }
}

absl::Status SqliteJournal::WhyStuck() const {
  absl::Status full = headroom_.CheckRoom();
  if (!full.ok()) return full;
  return MakeProblem(absl::StatusCode::kResourceExhausted,
                     {.code = "JC1605",
                      .what = StrCat("the disk of ", paths_.Root(),
                                     " was full and has room again; what waits is being recorded"),
                      .fix = "try again"});
}

// Not synced: it survives a killed process, and after a power cut an older mark is only less
// strict.
void SqliteJournal::SayHighWater(const std::vector<JournalRecord>& group) {
  for (auto record = group.rbegin(); record != group.rend(); ++record) {
    if (record->events == nullptr || record->events->empty()) continue;
    const std::string text = absl::StrFormat("%020u\n", record->events->back().seq());
    if (pwrite(high_water_.get(), text.data(), text.size(), 0) < 0) return;
    return;
  }
}

void SqliteJournal::MaybeLeaveFullDisk() {
  if (!disk_full_ || !headroom_.HasRoomAgain() || !headroom_.Reserve()) return;
  disk_full_ = false;
  observer_.disk_full(false);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(const Paths& paths, LivedClock* clock) {
  auto journal = std::make_unique<SqliteJournal>(paths);
  RETURN_IF_ERROR(journal->Open(clock));
  return journal;
}

}  // namespace muster::coordinator
