// The order in which a pass looks at waiting jobs. Until some project has a quota: one queue (state/order.h). From then
// on each project has a line for each kind of device, and before each step the next line is chosen: those whose next job
// fits into their project's quota, the one that uses the smallest part of it first; then the others, the one that
// borrows least for its weight first. The first jobs of all lines come before those that would pass them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/core/scheduling/ground.h"

namespace muster::coordinator {

class QueueWalk {
 public:
  // Most of the jobs are refused at a glance; what costs is bounded by Ground::is_spent.
  // limit: jobs: queued jobs that a scheduling pass looks at; jobs behind them wait
  static constexpr size_t kLookedAtMax = 20'000;

  QueueWalk(Ground& ground, size_t looked_at_max);

  // Null: all jobs have had their turn, or as many as a pass looks at.
  const v1::JobRecord* Next();
  // After Next returned null: whether that is because it has looked at as many as it may.
  bool was_cut() const { return looked_at_ > looked_at_max_; }
  // The job that Next returned last waits for running ones, so that what its line has behind it would pass it.
  void Waits();
  // No further job of its project and kind can start in this pass.
  void EndLine();

 private:
  struct Cursor {
    const std::set<QueuePlace>* queue;
    std::set<QueuePlace>::const_iterator next;
  };
  // What decides between lines.
  struct Claim {
    bool in_quota = false;
    uint64_t used = 0;   // … of its quota, or what it has borrowed, …
    uint64_t parts = 1;  // … in relation to this: the quota, or its weight
    uint64_t job = 0;
    bool operator<(const Claim& other) const;
  };
  struct Line {
    std::string project, kind;
    std::vector<Cursor> cursors;  // of jobs that name the kind, and of those that name none
    bool waits = false;
    std::optional<Claim> claim;  // of its next job, as of `starts`
    size_t starts = 0;
  };
  static Cursor* NextOf(Line& line);
  void AddLines();
  const Claim& ClaimOf(Line& line, uint64_t job);
  Line* Best(bool waits);
  const v1::JobRecord* Take(Line& line);

  Ground& ground_;
  const size_t looked_at_max_;
  Cursor ahead_;  // jobs that go before all lines
  std::vector<Line> lines_;
  bool one_queue_;
  size_t looked_at_ = 0;
  std::set<std::pair<std::string_view, std::string_view>>
      ended_;  // project and kind, of the jobs' records
  const v1::JobRecord* last_ = nullptr;
};

}  // namespace muster::coordinator
