// What attempts have used: a book of device time by month, project, owner, kind and labels, which stays when jobs are
// removed. An attempt is booked once, when it ends; what a project has borrowed, when its use or its quota changes. So it is
// exact over restarts: the book is part of the state. Wall-clock time, as that is what devices were assigned for. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/base/copy_on_write.h"
#include "coordinator/core/state/project_shares.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// Milliseconds of one device.
struct UsedTime {
  uint64_t used_ms = 0;
  uint64_t failed_ms = 0;  // not saved when it failed or lost a node
  uint64_t left_ms = 0;    // not saved when it gave way, was stopped or evicted
  uint64_t attempts = 0;

  UsedTime& operator+=(const UsedTime& more) {
    used_ms += more.used_ms;
    failed_ms += more.failed_ms;
    left_ms += more.left_ms;
    attempts += more.attempts;
    return *this;
  }
};

class UsageBook {
 public:
  // limit: usage: rows with labels of one month; further ones are booked without labels
  static constexpr size_t kLabeledRowsMax = 2'000;
  // limit: usage: rows with labels of one owner and month; further ones are booked without labels
  static constexpr size_t kLabeledRowsOfOwnerMax = 200;
  // limit: usage: months for which labels are kept; before them rows have none
  static constexpr size_t kLabeledMonthsMax = 12;
  // limit: usage: bytes of a job's labels; one with more is booked without labels
  static constexpr size_t kLabelBytesMax = 256;

  struct Row {
    uint32_t month = 0;  // 202611, of UTC
    std::string project, owner, kind;
    std::map<std::string, std::string> labels;
    auto operator<=>(const Row&) const = default;
  };
  struct Borrowed {
    uint32_t month = 0;
    std::string project, kind;
    auto operator<=>(const Borrowed&) const = default;
  };

  // Where the job's time is booked, without month and kind.
  static Row RowOf(const v1::JobRecord& job);

  void Restore(const v1::UsageBook& book);
  v1::UsageBook Snapshot() const;
  // An attempt that lives, of a state that is restored.
  void Resume(const v1::JobRecord& job, const v1::Attempt& attempt);

  void AttemptStarted(const ProjectShares& shares, const v1::JobRecord& job,
                      const v1::Attempt& attempt, int64_t at_ms);
  // Before the part counts as ended.
  void PartEnded(const ProjectShares& shares, const v1::JobRecord& job, const v1::NodePart& part,
                 int64_t at_ms);
  // `attempt`: as it has ended. `saved_ms`: when what it had done was last saved; 0: never.
  void AttemptEnded(const v1::JobRecord& job, const v1::Attempt& attempt, int64_t saved_ms);
  // Before `shares` change.
  void SharesChange(const ProjectShares& shares, int64_t at_ms);

  void ForEachRow(const std::function<void(const Row& row, const UsedTime& time)>& take) const;
  // Up to at_ms.
  std::map<Borrowed, uint64_t> BorrowedUntil(const ProjectShares& shares, int64_t at_ms) const;

 private:
  using ProjectAndKind = std::pair<std::string, std::string>;
  struct Meter {
    uint64_t devices = 0;
    int64_t since_ms = 0;
  };
  void Move(const ProjectShares& shares, const ProjectAndKind& of, int64_t at_ms);
  UsedTime& At(Row row);
  void ForgetOldLabels();

  struct Month {
    std::map<Row, UsedTime> rows;
    size_t labeled = 0;
    std::map<std::string, size_t> labeled_of;  // by owner
  };
  // Copies of the book share the months, of which one changes.
  std::map<uint32_t, common::CopyOnWrite<Month>> months_;
  std::map<Borrowed, uint64_t> borrowed_;
  std::map<ProjectAndKind, Meter> meters_;  // of what is in use now
};

// The part of from_ms to until_ms in each month, in order.
void ForEachMonth(int64_t from_ms, int64_t until_ms,
                  const std::function<void(uint32_t month, uint64_t ms)>& take);
// What one attempt has used, by month, kind and what became of it. One that lives: up to now_ms.
void ForEachUse(
    const v1::Attempt& attempt, int64_t saved_ms, int64_t now_ms,
    const std::function<void(uint32_t month, const std::string& kind, const UsedTime& time)>& take);

}  // namespace muster::coordinator
