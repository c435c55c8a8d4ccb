// Who did what: every change, and every refusal, appended to a chain (common/audit_chain.h) by a
// separate thread, which makes many entries durable at once. A change whose entry finds no place in the
// queue is refused, so that nothing happens unrecorded; so is every change while the disk takes no
// entries. The entries of changes in progress are kept and written as soon as it does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/audit/refusal_budget.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/stores/audit_store.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

class Audit {
 public:
  // limit: audit: entries that wait, none while its disk fails; changes are refused (JC1336)
  static constexpr size_t kQueueMax = 32'768;
  static constexpr size_t kTextBytesMax = 512;  // of one text of an entry
  // Entries that no caller waits for are synced together.
  static constexpr std::chrono::milliseconds kGather{100};
  // The newest hash is logged after this many entries, and after this long.
  static constexpr uint64_t kHeadEvery = 1'000;
  static constexpr std::chrono::hours kHeadAfter{1};

  // No store: nothing is recorded (a private coordinator has one user).
  Audit(std::unique_ptr<AuditStore> store, const common::Clock& clock,
        size_t queue_max = kQueueMax);
  ~Audit() { Stop(); }
  // Continues where the last run ended, and starts the thread.
  absl::Status Open();
  bool IsKept() const { return store_ != nullptr; }
  // To read from.
  const AuditStore& store() const { return *store_; }

  // A place in the queue, taken before a change is made; given back with its last copy.
  // RESOURCE_EXHAUSTED (JC1336): there is none, or the disk takes no entries. Any thread; never
  // blocks.
  using Place = std::shared_ptr<void>;
  absl::StatusOr<Place> Reserve();
  // OK: the entry is on the disk. INTERNAL (JC1344): it cannot get there for now; the error is the
  // answer to the caller of the change.
  using Durable = std::function<void(const absl::Status& recorded)>;
  // Without number, time and hashes. `durable` is called once, on the audit's thread, or here if the
  // audit has stopped. Null: no caller waits.
  void Record(v1::AuditEntry entry, Place place, Durable durable);
  // Refusals, which anyone can cause: a limited number (refusal_budget.h). The next recorded one states
  // how many were left out.
  void RecordRefused(v1::AuditEntry entry);

  // The newest entry on the disk; number 0: there is none.
  v1::AuditHead head() const;
  // Afterwards everything that was recorded is on the disk, if possible.
  void Stop();

 private:
  struct Item {
    v1::AuditEntry entry;
    Place place;
    Durable durable;
  };
  // Null: the queue is full.
  Place TakePlace();
  void Run();
  // Answers all callers that wait for an entry of the batch.
  void Answer(std::vector<Item>& batch, const absl::Status& written);
  // False: stop.
  bool Next(std::vector<Item>& batch);
  absl::Status Write(std::vector<Item>& batch);
  void TellTouched(std::string what, std::vector<Item>& batch);
  void SayHead();

  const std::unique_ptr<AuditStore> store_;  // written on the audit's thread
  const common::Clock& clock_;
  const size_t queue_max_;
  const std::shared_ptr<std::atomic<size_t>> taken_ = std::make_shared<std::atomic<size_t>>(0);

  // The audit's thread; before it starts, Open.
  v1::AuditHead last_;
  uint64_t said_ = 0;
  std::chrono::steady_clock::time_point said_at_;
  RateLimitedLog complaints_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Item> queue_;
  bool is_urgent_ = false;  // a caller waits
  bool stopping_ = false;
  v1::AuditHead head_;
  absl::Status why_stuck_;  // the last write's; OK: the disk takes entries
  // Strangers to the cluster cannot use up the budget of its members.
  RefusalBudget refused_members_;
  RefusalBudget refused_strangers_;
  std::thread thread_;
};

}  // namespace muster::coordinator
