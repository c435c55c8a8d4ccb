#include "coordinator/core/views/usage_view.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "coordinator/core/state/usage_book.h"

namespace muster::coordinator {
namespace {

// limit: usage: groups by which usage is asked for; refused (JC1004)
constexpr int kGroupsMax = 8;

absl::Status Refused(const std::string& what, const std::string& fix) {
  return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                             {.code = "JC1004", .what = what, .fix = fix});
}

using GroupKey = std::function<std::string(const UsageBook::Row&)>;

absl::StatusOr<GroupKey> KeyNamed(const std::string& by) {
  if (by == "project") return GroupKey([](const auto& row) { return row.project; });
  if (by == "user") return GroupKey([](const auto& row) { return row.owner; });
  if (by == "kind") return GroupKey([](const auto& row) { return row.kind; });
  if (by == "month") {
    return GroupKey([](const auto& row) {
      return absl::StrFormat("%04d-%02d", row.month / 100, row.month % 100);
    });
  }
  if (by.starts_with("label:") && by.size() > 6) {
    return GroupKey([name = by.substr(6)](const auto& row) {
      const auto label = row.labels.find(name);
      return label == row.labels.end() ? std::string() : label->second;
    });
  }
  return Refused(absl::StrCat("\"", common::Printable(by), "\" is nothing to group usage by"),
                 "project, user, kind, month or label:KEY");
}

absl::StatusOr<uint32_t> MonthOf(const std::string& text, uint32_t otherwise) {
  if (text.empty()) return otherwise;
  uint32_t year = 0, month = 0;
  if (text.size() == 7 && text[4] == '-' && absl::SimpleAtoi(text.substr(0, 4), &year) &&
      absl::SimpleAtoi(text.substr(5), &month) && month >= 1 && month <= 12) {
    return year * 100 + month;
  }
  return Refused(absl::StrCat("\"", common::Printable(text), "\" is not a month"),
                 "write it like 2026-11");
}

class Groups {
 public:
  Groups(std::vector<GroupKey> keys, uint32_t since, uint32_t until)
      : keys_(std::move(keys)), since_(since), until_(until) {}

  v1::UsageGroup* At(const UsageBook::Row& row) {
    if (row.month < since_ || row.month > until_) return nullptr;
    std::vector<std::string> key;
    key.reserve(keys_.size());
    for (const GroupKey& of : keys_) key.push_back(of(row));
    return &groups_[std::move(key)];
  }
  void Add(const UsageBook::Row& row, const UsedTime& time) {
    v1::UsageGroup* group = At(row);
    if (group == nullptr) return;
    group->set_used_ms(group->used_ms() + time.used_ms);
    group->set_failed_ms(group->failed_ms() + time.failed_ms);
    group->set_left_ms(group->left_ms() + time.left_ms);
    group->set_attempts(group->attempts() + time.attempts);
  }
  absl::StatusOr<v1::ListUsageResponse> Take() {
    v1::ListUsageResponse response;
    size_t bytes = 0;
    for (auto& [key, group] : groups_) {
      group.mutable_keys()->Assign(key.begin(), key.end());
      bytes += group.ByteSizeLong() + 8;
      if (bytes > common::kAnswerBytesMax) {
        return Refused(absl::StrCat(groups_.size(), " groups are too many for one answer"),
                       "group by fewer, or limit the months: --since 2026-11");
      }
      *response.add_groups() = std::move(group);
    }
    return response;
  }

 private:
  const std::vector<GroupKey> keys_;
  const uint32_t since_, until_;
  std::map<std::vector<std::string>, v1::UsageGroup> groups_;
};

void AddLive(const SchedulingState& state, Now now, Groups& groups) {
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    const v1::Attempt* attempt = LiveAttempt(job);
    if (attempt == nullptr) continue;
    UsageBook::Row row = UsageBook::RowOf(job);
    ForEachUse(*attempt, 0, now.wall_ms,
               [&](uint32_t month, const std::string& kind, const UsedTime& time) {
                 row.month = month;
                 row.kind = kind;
                 groups.Add(row, time);
               });
  }
}

}  // namespace

absl::StatusOr<v1::ListUsageResponse> ViewUsage(const SchedulingState& state,
                                                const v1::ListUsageRequest& request, Now now) {
  if (request.by_size() > kGroupsMax)
    return Refused(absl::StrCat("usage is grouped by at most ", kGroupsMax), "ask for fewer");
  std::vector<GroupKey> keys;
  bool knows_borrowed = true;
  for (const std::string& by : request.by()) {
    ASSIGN_OR_RETURN(keys.emplace_back(), KeyNamed(by));
    knows_borrowed &= by != "user" && !by.starts_with("label:");
  }
  ASSIGN_OR_RETURN(const uint32_t since, MonthOf(request.since(), 0));
  ASSIGN_OR_RETURN(const uint32_t until, MonthOf(request.until(), UINT32_MAX));
  Groups groups(std::move(keys), since, until);
  state.usage.Get().ForEachRow(
      [&](const UsageBook::Row& row, const UsedTime& time) { groups.Add(row, time); });
  AddLive(state, now, groups);
  if (!knows_borrowed) return groups.Take();
  for (const auto& [of, ms] : state.usage.Get().BorrowedUntil(state.projects, now.wall_ms)) {
    v1::UsageGroup* group = groups.At({.month = of.month, .project = of.project, .kind = of.kind});
    if (group != nullptr) group->set_borrowed_ms(group->borrowed_ms() + ms);
  }
  return groups.Take();
}

}  // namespace muster::coordinator
