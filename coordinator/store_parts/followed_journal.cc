#include "coordinator/store_parts/followed_journal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/views/views.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr auto kTakenAgainAfter = std::chrono::milliseconds(250);

// Which events the log has: the ones after `snapshot` individually.
struct Extent {
  uint64_t snapshot = 0;
  uint64_t end = 0;
};

absl::StatusOr<Extent> Measure(Journal& log) {
  Extent extent;
  RETURN_IF_ERROR(log.Replay({.snapshot =
                                  [&](const v1::Snapshot& snapshot) {
                                    extent.snapshot = extent.end = snapshot.seq();
                                    return absl::OkStatus();
                                  },
                              .event =
                                  [&](const v1::Event& event) {
                                    extent.end = event.seq();
                                    return absl::OkStatus();
                                  }}));
  return extent;
}

struct ReplayedLog {
  std::vector<v1::Event> events;  // after the snapshot
  std::vector<v1::JobRecord> finished;
};

absl::StatusOr<ReplayedLog> ReadLog(Journal& log) {
  ReplayedLog read;
  ClusterState state;
  RETURN_IF_ERROR(log.Replay(
      {.snapshot =
           [&](const v1::Snapshot& snapshot) { return ReplaySnapshot(state, snapshot, Now{}); },
       .event =
           [&](const v1::Event& event) {
             read.events.push_back(event);
             return ReplayEvent(state, event, Now{});
           }}));
  RETURN_IF_ERROR(CheckReplayed(state));
  read.finished = TakeFinished(state);
  return read;
}

// What came after event `position`.
std::vector<JournalRecord> TurnsAfter(const ReplayedLog& log, uint64_t position) {
  std::vector<v1::Event> events;
  std::set<uint64_t> ended, removed;
  for (const v1::Event& event : log.events) {
    if (event.seq() <= position) continue;
    if (event.has_job_removed()) removed.insert(event.job());
    if (event.has_job_state_changed() && IsFinal(event.job_state_changed().to()))
      ended.insert(event.job());
    events.push_back(event);
  }
  const auto turn_of = [](TurnFacts facts) {
    return JournalRecord{.facts = std::make_shared<const TurnFacts>(std::move(facts))};
  };
  std::vector<JournalRecord> turns = {turn_of({.removed_jobs = {removed.begin(), removed.end()}})};
  turns.front().events = std::make_shared<const std::vector<v1::Event>>(std::move(events));
  for (const v1::JobRecord& job : log.finished) {
    if (!ended.contains(job.id()) || removed.contains(job.id())) continue;
    turns.push_back(
        turn_of({.finished = {{std::make_shared<const v1::JobRecord>(job), Summarize(job)}},
                 .lived_ms = job.state_lived_ms()}));
  }
  return turns;
}

absl::Status CannotFollow(const Projection& projection, const std::string& why) {
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what = StrCat(projection.Place(), " does not belong to the journal beside it"),
       .why = why,
       .fix = "restore both from one backup"});
}

absl::Status CatchUp(Journal& log, const Extent& extent, Projection& projection) {
  ASSIGN_OR_RETURN(const uint64_t position, projection.Position());
  if (position == extent.end) return absl::OkStatus();
  if (position > extent.end) {
    return CannotFollow(projection, StrCat("it has event ", position,
                                           ", and the journal ends at event ", extent.end));
  }
  if (position < extent.snapshot) {
    return CannotFollow(projection,
                        StrCat("it has the events up to ", position,
                               ", and the journal only keeps those after ", extent.snapshot));
  }
  ASSIGN_OR_RETURN(const ReplayedLog read, ReadLog(log));
  return projection.Take(TurnsAfter(read, position));
}

class FollowedJournal final : public Journal {
 public:
  FollowedJournal(std::unique_ptr<Journal> log, std::vector<Projection*> projections)
      : log_(std::move(log)), projections_(std::move(projections)) {}
  ~FollowedJournal() override { Stop().IgnoreError(); }

  uint64_t Epoch() const override { return log_->Epoch(); }
  std::string ClusterId() const override { return log_->ClusterId(); }
  std::string Place() const override { return log_->Place(); }
  absl::Status Replay(const ReplayCallbacks& sink) override { return log_->Replay(sink); }
  void Start(JournalCallbacks observer) override;
  void Append(JournalRecord record) override;
  void UseLastReserve() override { log_->UseLastReserve(); }
  // What the projections still have to take is pending, too, and includes what the log still has to.
  size_t PendingBytes() const override { return pending_bytes_; }
  absl::Status Stop() override;

 private:
  struct Held {
    uint64_t turn = 0;
    std::shared_ptr<const v1::Snapshot> snapshot;
  };

  void Run();
  // Waits for turns that the log has. Empty: stopping.
  std::vector<JournalRecord> TakeDurable();
  // Returns once all projections have them. False: one failed, or it is stopping before they could.
  bool Project(const std::vector<JournalRecord>& turns);
  void Taken(const std::vector<JournalRecord>& turns);

  const std::unique_ptr<Journal> log_;
  const std::vector<Projection*> projections_;
  JournalCallbacks observer_;  // set once

  std::atomic<size_t> pending_bytes_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<JournalRecord> queue_;  // turns that at least one projection lacks
  std::optional<Held> held_;   // the newest snapshot of events that at least one projection lacks
  uint64_t durable_turn_ = 0;  // in the log
  bool stopping_ = false;
  absl::Status failure_;
  std::thread thread_;
};

void FollowedJournal::Start(JournalCallbacks observer) {
  observer_ = std::move(observer);
  log_->Start({.durable =
                   [this](uint64_t turn) {
                     {
                       std::lock_guard lock(mutex_);
                       durable_turn_ = std::max(durable_turn_, turn);
                     }
                     wake_.notify_one();
                   },
               .disk_full = observer_.disk_full,
               .stuck = observer_.stuck,
               .failed = observer_.failed});
  thread_ = std::thread([this] { Run(); });
}

void FollowedJournal::Append(JournalRecord record) {
  pending_bytes_ += PendingBytesOf(record);
  const bool has_news = record.events != nullptr || record.facts != nullptr;
  {
    std::lock_guard lock(mutex_);
    if (record.snapshot != nullptr && (has_news || !queue_.empty()))
      held_ = {record.turn, std::exchange(record.snapshot, nullptr)};
    queue_.push_back(record);
  }
  log_->Append(std::move(record));
}

absl::Status FollowedJournal::Stop() {
  const absl::Status closed = log_->Stop();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mutex_);
  return closed.ok() ? failure_ : closed;
}

void FollowedJournal::Run() {
  while (true) {
    const std::vector<JournalRecord> turns = TakeDurable();
    if (turns.empty() || !Project(turns)) return;
    Taken(turns);
  }
}

std::vector<JournalRecord> FollowedJournal::TakeDurable() {
  std::unique_lock lock(mutex_);
  const auto is_ready = [this] { return !queue_.empty() && queue_.front().turn <= durable_turn_; };
  wake_.wait(lock, [&] { return is_ready() || stopping_; });
  std::vector<JournalRecord> turns;
  for (const JournalRecord& record : queue_) {
    if (record.turn <= durable_turn_) turns.push_back(record);
  }
  return turns;
}

bool FollowedJournal::Project(const std::vector<JournalRecord>& turns) {
  bool was_stuck = false;
  for (Projection* const projection : projections_) {
    while (true) {
      const absl::Status taken = projection->Take(turns);
      if (taken.ok()) break;
      const bool may_pass = IsShortage(taken);
      may_pass ? observer_.stuck(taken) : observer_.failed(taken);
      was_stuck = true;
      std::unique_lock lock(mutex_);
      if (may_pass) wake_.wait_for(lock, kTakenAgainAfter, [this] { return stopping_; });
      if (may_pass && !stopping_) continue;
      failure_ = taken;
      return false;
    }
  }
  if (was_stuck) observer_.stuck(absl::OkStatus());
  return true;
}

void FollowedJournal::Taken(const std::vector<JournalRecord>& turns) {
  const uint64_t last = turns.back().turn;
  for (const JournalRecord& record : turns) pending_bytes_ -= PendingBytesOf(record);
  std::optional<Held> due;
  {
    std::lock_guard lock(mutex_);
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(turns.size()));
    // Optional: without it the next start has more to replay.
    if (held_.has_value() && held_->turn <= last && !stopping_) due.swap(held_);
  }
  if (due.has_value()) log_->Append({.turn = due->turn, .snapshot = std::move(due->snapshot)});
  observer_.durable(last);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> FollowJournal(std::unique_ptr<Journal> log,
                                                       std::vector<Projection*> projections) {
  ASSIGN_OR_RETURN(const Extent extent, Measure(*log));
  for (Projection* const projection : projections)
    RETURN_IF_ERROR(CatchUp(*log, extent, *projection));
  return std::make_unique<FollowedJournal>(std::move(log), std::move(projections));
}

}  // namespace muster::coordinator
