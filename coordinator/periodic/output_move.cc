#include "coordinator/periodic/output_move.h"

#include <chrono>
#include <deque>
#include <memory>
#include <set>

#include "common/base/status.h"
#include "common/log.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::hours kLookAgainAfter{1};
constexpr std::chrono::minutes kTryAgainAfter{1};

struct Look {
  FileMove& move;
  JobIndex& index;
  WorkPool& pool;
  std::deque<uint64_t> left;
  std::set<uint64_t> stay;  // what cannot be moved is named once
  size_t moved = 0;
};

void Next(const std::shared_ptr<Look>& look);

void LookAgain(const std::shared_ptr<Look>& look) {
  if (look->moved > 0)
    common::LogInfo(StrCat("objects: moved the output and metrics of jobs count=", look->moved));
  look->moved = 0;
  look->pool.PostAfter(kLookAgainAfter, [look] {
    for (const uint64_t job : look->move.Jobs()) {
      if (!look->stay.contains(job)) look->left.push_back(job);
    }
    Next(look);
  });
}

// An error: it passes, and the job's turn comes again.
absl::Status MoveOne(Look& look, uint64_t job) {
  const absl::StatusOr<std::optional<v1::JobRecord>> record = look.index.Find(job);
  // Another coordinator has the record, or it is gone (stray_output.h), or has not ended.
  if (absl::IsFailedPrecondition(record.status())) return absl::OkStatus();
  RETURN_IF_ERROR(record.status());
  if (!record->has_value()) return absl::OkStatus();
  const absl::Status moved = look.move.Move(**record);
  if (absl::IsFailedPrecondition(moved)) {
    look.stay.insert(job);
    common::LogWarning(StrCat("objects: what job ", job,
                              " printed and measured stays in the data directory reason=\"",
                              common::MessageOf(moved), "\""));
    return absl::OkStatus();
  }
  if (moved.ok()) ++look.moved;
  return moved;
}

void Next(const std::shared_ptr<Look>& look) {
  if (look->left.empty()) return LookAgain(look);
  const uint64_t job = look->left.front();
  look->left.pop_front();
  const absl::Status moved = MoveOne(*look, job);
  if (moved.ok()) return look->pool.Post([look] { Next(look); });
  if (!absl::IsCancelled(moved)) {
    common::LogWarning(StrCat("objects: output stays in the data directory for now job=", job,
                              " reason=\"", common::MessageOf(moved), "\""));
  }
  look->left.push_back(job);
  look->pool.PostAfter(kTryAgainAfter, [look] { Next(look); });
}

}  // namespace

void MoveOutputIntoObjects(FileMove& move, JobIndex& index, WorkPool& pool) {
  const auto look = std::make_shared<Look>(Look{.move = move, .index = index, .pool = pool});
  pool.Post([look] {
    for (const uint64_t job : look->move.Jobs()) look->left.push_back(job);
    if (!look->left.empty())
      common::LogInfo(
          StrCat("objects: output and metrics in the data directory jobs=", look->left.size()));
    Next(look);
  });
}

}  // namespace muster::coordinator
