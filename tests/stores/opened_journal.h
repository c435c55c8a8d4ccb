// What tests of a journal write into it, and how they see what it says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/stores/job_index.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/projection.h"

namespace muster::coordinator {

inline v1::Event ReasonEvent(uint64_t seq, uint64_t job, const std::string& reason) {
  v1::Event event;
  event.set_seq(seq);
  event.set_job(job);
  event.mutable_reason_changed()->set_reason(reason);
  return event;
}

inline JournalRecord RecordOf(uint64_t turn, std::vector<v1::Event> events) {
  JournalRecord record;
  record.turn = turn;
  record.events = std::make_shared<const std::vector<v1::Event>>(std::move(events));
  return record;
}

inline v1::Event RemovedEvent(uint64_t seq, uint64_t job) {
  v1::Event event;
  event.set_seq(seq);
  event.set_job(job);
  event.mutable_job_removed()->set_by("uid:1");
  return event;
}

inline std::shared_ptr<const TurnFacts> FactsOf(std::vector<FinishedJob> finished,
                                                int64_t lived_ms = 0) {
  return std::make_shared<const TurnFacts>(
      TurnFacts{.finished = std::move(finished), .lived_ms = lived_ms});
}

inline std::shared_ptr<const TurnFacts> FactsOfRemoved(std::vector<uint64_t> jobs) {
  return std::make_shared<const TurnFacts>(TurnFacts{.removed_jobs = std::move(jobs)});
}

inline FinishedJob Finished(uint64_t id, const std::string& name, const std::string& key) {
  auto record = std::make_shared<v1::JobRecord>();
  record->set_id(id);
  record->set_name(name);
  record->set_owner("uid:1");
  record->set_idempotency_key(key);
  record->set_spec_hash(77);
  record->set_state(v1::JOB_STATE_SUCCEEDED);
  record->set_finished_ms(static_cast<int64_t>(1'000 + id));
  v1::JobSummary summary;
  summary.set_id(id);
  summary.set_name(name);
  return {record, summary};
}

// A started journal whose durable turn can be waited for.
class OpenedJournal {
 public:
  explicit OpenedJournal(std::unique_ptr<Journal> opened) : journal(std::move(opened)) {}
  void Start() {
    journal->Start({.durable =
                        [this](uint64_t turn) {
                          std::lock_guard lock(mutex_);
                          durable_ = turn;
                          changed_.notify_all();
                        },
                    .disk_full = [](bool) {},
                    .stuck =
                        [this](const absl::Status& why) {
                          std::lock_guard lock(mutex_);
                          if (why.ok()) ++times_unstuck_;
                          why_stuck_ = why;
                          changed_.notify_all();
                        },
                    .failed =
                        [this](const absl::Status& status) {
                          std::lock_guard lock(mutex_);
                          failure_ = status;
                          changed_.notify_all();
                        }});
  }
  absl::Status WaitFor(uint64_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return durable_ >= turn || !failure_.ok(); });
    if (!failure_.ok()) return failure_;
    return durable_ >= turn ? absl::OkStatus() : absl::DeadlineExceededError("not durable");
  }

  // Why it waits, once it does.
  absl::Status WaitForStuck() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return !why_stuck_.ok() || !failure_.ok(); });
    return why_stuck_;
  }
  int TimesUnstuck() {
    std::lock_guard lock(mutex_);
    return times_unstuck_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t durable_ = 0;
  absl::Status failure_;
  absl::Status why_stuck_;
  int times_unstuck_ = 0;

 public:
  const std::unique_ptr<Journal> journal;  // ends first: its thread tells us
};

struct Replayed {
  std::vector<uint64_t> events;
  uint64_t snapshot = 0;
};

inline absl::StatusOr<Replayed> Replay(Journal& journal) {
  Replayed replayed;
  const absl::Status status = journal.Replay({.snapshot =
                                                  [&](const v1::Snapshot& snapshot) {
                                                    replayed.snapshot = snapshot.seq();
                                                    return absl::OkStatus();
                                                  },
                                              .event =
                                                  [&](const v1::Event& event) {
                                                    replayed.events.push_back(event.seq());
                                                    return absl::OkStatus();
                                                  }});
  if (!status.ok()) return status;
  return replayed;
}

// "owner/key", sorted.
inline std::vector<std::string> KeysOf(JobIndex& index) {
  std::vector<std::string> keys;
  const absl::Status read =
      index.Keys([&](const std::string& owner, const std::string& key, uint64_t job,
                     uint64_t hash) { keys.push_back(owner + "/" + key); });
  EXPECT_TRUE(read.ok()) << read;
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace muster::coordinator
