#include "coordinator/core/state/usage_book.h"

#include <algorithm>

#include "absl/time/time.h"
#include "coordinator/core/state/lifecycle.h"

namespace muster::coordinator {
namespace {

// Clocks of disks and peers may be anywhere: years 1 to 9999.
constexpr int64_t kWallMsMax = 253'402'300'799'000;
// No attempt runs for longer (job::kMaxDurationMs), but a clock may be corrected by decades while one does.
constexpr int64_t kOnceMsMax = 366LL * 86'400'000;

int64_t FirstOf(absl::CivilMonth month) {
  return absl::ToUnixMillis(absl::FromCivil(month, absl::UTCTimeZone()));
}

bool IsLost(v1::StopCause cause) {
  switch (cause) {
    case v1::STOP_CAUSE_RANK_FAILED:
    case v1::STOP_CAUSE_NODE_LOST:
    case v1::STOP_CAUSE_LAUNCH_FAILED:
    case v1::STOP_CAUSE_SUPERVISOR_LOST:
    case v1::STOP_CAUSE_START_TIMEOUT:
    case v1::STOP_CAUSE_LAUNCH_INTERRUPTED:
      return true;
    default:
      return false;
  }
}

uint64_t BorrowedOf(const ProjectShares& shares, const std::string& project,
                    const std::string& kind, uint64_t devices) {
  if (!HasQuotas(shares)) return 0;
  return devices - std::min<uint64_t>(devices, QuotaOf(shares, project, kind));
}

}  // namespace

void ForEachMonth(int64_t from_ms, int64_t until_ms,
                  const std::function<void(uint32_t month, uint64_t ms)>& take) {
  from_ms = std::clamp<int64_t>(from_ms, 0, kWallMsMax);
  until_ms = std::clamp<int64_t>(until_ms, 0, kWallMsMax);
  while (from_ms < until_ms) {
    const absl::CivilMonth month(
        absl::ToCivilDay(absl::FromUnixMillis(from_ms), absl::UTCTimeZone()));
    const int64_t end_ms = std::min(until_ms, FirstOf(month + 1));
    take(static_cast<uint32_t>(month.year() * 100 + month.month()),
         static_cast<uint64_t>(end_ms - from_ms));
    from_ms = end_ms;
  }
}

void ForEachUse(const v1::Attempt& attempt, int64_t saved_ms, int64_t now_ms,
                const std::function<void(uint32_t month, const std::string& kind,
                                         const UsedTime& time)>& take) {
  const bool lives = attempt.ended_ms() == 0;
  const int64_t lost_from_ms = std::max(saved_ms, attempt.started_ms());
  for (const v1::NodePart& part : attempt.parts()) {
    const auto devices = static_cast<uint64_t>(part.device_indexes_size());
    int64_t end_ms = lives ? now_ms : attempt.ended_ms();
    if (part.ended() && part.ended_ms() > 0) end_ms = part.ended_ms();
    end_ms = std::min(end_ms, attempt.started_ms() + kOnceMsMax);
    ForEachMonth(attempt.started_ms(), end_ms, [&](uint32_t month, uint64_t ms) {
      take(month, part.device_kind(), {.used_ms = ms * devices});
    });
    if (lives || !(IsLost(attempt.cause()) || WasAskedToLeave(attempt.cause()))) continue;
    ForEachMonth(lost_from_ms, end_ms, [&](uint32_t month, uint64_t ms) {
      UsedTime lost;
      (IsLost(attempt.cause()) ? lost.failed_ms : lost.left_ms) = ms * devices;
      take(month, part.device_kind(), lost);
    });
  }
}

// ---------------------------------------------------------------- what is borrowed

void UsageBook::Move(const ProjectShares& shares, const ProjectAndKind& of, int64_t at_ms) {
  Meter& meter = meters_[of];
  const uint64_t borrowed = BorrowedOf(shares, of.first, of.second, meter.devices);
  if (borrowed > 0) {
    ForEachMonth(std::max(meter.since_ms, at_ms - kOnceMsMax), at_ms,
                 [&](uint32_t month, uint64_t ms) {
                   borrowed_[{month, of.first, of.second}] += ms * borrowed;
                 });
  }
  // Never backward: a clock that was set back must not book the same time twice.
  meter.since_ms = std::max(meter.since_ms, at_ms);
}

void UsageBook::AttemptStarted(const ProjectShares& shares, const v1::JobRecord& job,
                               const v1::Attempt& attempt, int64_t at_ms) {
  for (const v1::NodePart& part : attempt.parts()) {
    const ProjectAndKind of(ProjectOf(job), part.device_kind());
    Move(shares, of, at_ms);
    meters_[of].devices += static_cast<uint64_t>(part.device_indexes_size());
  }
}

void UsageBook::PartEnded(const ProjectShares& shares, const v1::JobRecord& job,
                          const v1::NodePart& part, int64_t at_ms) {
  if (part.ended()) return;
  const ProjectAndKind of(ProjectOf(job), part.device_kind());
  Move(shares, of, at_ms);
  const auto meter = meters_.find(of);
  meter->second.devices -=
      std::min(meter->second.devices, static_cast<uint64_t>(part.device_indexes_size()));
  if (meter->second.devices == 0) meters_.erase(meter);
}

void UsageBook::SharesChange(const ProjectShares& shares, int64_t at_ms) {
  for (const auto& [of, meter] : meters_) Move(shares, of, at_ms);
}

std::map<UsageBook::Borrowed, uint64_t> UsageBook::BorrowedUntil(const ProjectShares& shares,
                                                                 int64_t at_ms) const {
  UsageBook then;
  then.borrowed_ = borrowed_;
  then.meters_ = meters_;
  then.SharesChange(shares, at_ms);
  return std::move(then.borrowed_);
}

// ---------------------------------------------------------------- what attempts used

UsageBook::Row UsageBook::RowOf(const v1::JobRecord& job) {
  Row row{.project = ProjectOf(job), .owner = job.owner()};
  row.labels = {job.spec().labels().begin(), job.spec().labels().end()};
  return row;
}

UsedTime& UsageBook::At(Row row) {
  const bool is_new_month = !months_.contains(row.month);
  Month& month = months_[row.month].Edit();
  if (is_new_month) ForgetOldLabels();
  if (const auto found = month.rows.find(row); found != month.rows.end()) return found->second;
  size_t bytes = 0;
  for (const auto& [key, value] : row.labels) bytes += key.size() + value.size();
  if (bytes > kLabelBytesMax || month.labeled >= kLabeledRowsMax ||
      month.labeled_of[row.owner] >= kLabeledRowsOfOwnerMax) {
    row.labels.clear();
  }
  if (!row.labels.empty()) ++month.labeled, ++month.labeled_of[row.owner];
  return month.rows[std::move(row)];
}

void UsageBook::ForgetOldLabels() {
  size_t left = months_.size();
  for (auto& [number, shared] : months_) {
    if (left-- <= kLabeledMonthsMax) return;
    if (shared.Get().labeled == 0) continue;
    Month& month = shared.Edit();
    std::map<Row, UsedTime> labeled;
    std::swap(labeled, month.rows);
    month.labeled = 0;
    month.labeled_of.clear();
    for (const auto& [row, time] : labeled) {
      Row key = row;
      key.labels.clear();
      month.rows[std::move(key)] += time;
    }
  }
}

void UsageBook::ForEachRow(
    const std::function<void(const Row& row, const UsedTime& time)>& take) const {
  for (const auto& [number, month] : months_) {
    for (const auto& [row, time] : month.Get().rows) take(row, time);
  }
}

void UsageBook::AttemptEnded(const v1::JobRecord& job, const v1::Attempt& attempt,
                             int64_t saved_ms) {
  Row row = RowOf(job);
  bool is_first = true;
  ForEachUse(attempt, saved_ms, attempt.ended_ms(),
             [&](uint32_t month, const std::string& kind, const UsedTime& time) {
               row.month = month;
               row.kind = kind;
               UsedTime& booked = At(row);
               booked += time;
               booked.attempts += std::exchange(is_first, false) ? 1 : 0;
             });
}

// ---------------------------------------------------------------- on disk

void UsageBook::Restore(const v1::UsageBook& book) {
  *this = UsageBook();
  for (const v1::UsageRow& row : book.rows()) {
    Row key{
        .month = row.month(), .project = row.project(), .owner = row.owner(), .kind = row.kind()};
    key.labels = {row.labels().begin(), row.labels().end()};
    Month& month = months_[key.month].Edit();
    if (!key.labels.empty()) ++month.labeled, ++month.labeled_of[key.owner];
    month.rows[std::move(key)] = {.used_ms = row.used_ms(),
                                  .failed_ms = row.failed_ms(),
                                  .left_ms = row.left_ms(),
                                  .attempts = row.attempts()};
  }
  for (const v1::BorrowedRow& row : book.borrowed()) {
    if (row.month() == 0) {
      meters_[{row.project(), row.kind()}].since_ms = row.since_ms();
    } else {
      borrowed_[{row.month(), row.project(), row.kind()}] = row.borrowed_ms();
    }
  }
}

void UsageBook::Resume(const v1::JobRecord& job, const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended()) continue;
    Meter& meter = meters_[{ProjectOf(job), part.device_kind()}];
    // Of a state of an older release.
    if (meter.since_ms == 0) meter.since_ms = attempt.started_ms();
    meter.devices += static_cast<uint64_t>(part.device_indexes_size());
  }
}

v1::UsageBook UsageBook::Snapshot() const {
  v1::UsageBook book;
  ForEachRow([&](const Row& key, const UsedTime& time) {
    v1::UsageRow& row = *book.add_rows();
    row.set_month(key.month);
    row.set_project(key.project);
    row.set_owner(key.owner);
    row.set_kind(key.kind);
    row.mutable_labels()->insert(key.labels.begin(), key.labels.end());
    row.set_used_ms(time.used_ms);
    row.set_failed_ms(time.failed_ms);
    row.set_left_ms(time.left_ms);
    row.set_attempts(time.attempts);
  });
  for (const auto& [key, borrowed_ms] : borrowed_) {
    v1::BorrowedRow& row = *book.add_borrowed();
    row.set_month(key.month);
    row.set_project(key.project);
    row.set_kind(key.kind);
    row.set_borrowed_ms(borrowed_ms);
  }
  for (const auto& [of, meter] : meters_) {
    v1::BorrowedRow& row = *book.add_borrowed();
    row.set_project(of.first);
    row.set_kind(of.second);
    row.set_since_ms(meter.since_ms);
  }
  return book;
}

}  // namespace muster::coordinator
