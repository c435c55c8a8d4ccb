#include "coordinator/core/scheduling/queue_walk.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

std::set<QueuePlace>::const_iterator AfterThoseAhead(const std::set<QueuePlace>& queue) {
  return std::find_if(queue.begin(), queue.end(),
                      [](const QueuePlace& place) { return !place.IsAhead(); });
}

}  // namespace

QueueWalk::QueueWalk(Ground& ground, size_t looked_at_max)
    : ground_(ground),
      looked_at_max_(looked_at_max),
      ahead_{&ground.state.queue, ground.state.queue.begin()},
      one_queue_(!HasQuotas(ground.state.projects)) {
  if (one_queue_) {
    lines_.push_back({.cursors = {ahead_}});
    ahead_.next = ahead_.queue->end();  // they are first in the one queue
  } else {
    AddLines();
  }
}

void QueueWalk::AddLines() {
  for (const auto& [of, queue] : ground_.state.lines) {
    const std::string& project = of.first;
    const std::string& kind = of.second.empty() ? ground_.usual_kind() : of.second;
    auto line = std::find_if(lines_.begin(), lines_.end(), [&](const Line& each) {
      return each.project == project && each.kind == kind;
    });
    if (line == lines_.end()) line = lines_.insert(line, Line{.project = project, .kind = kind});
    line->cursors.push_back({&queue, AfterThoseAhead(queue)});
  }
}

const v1::JobRecord* QueueWalk::Next() {
  while (++looked_at_ <= looked_at_max_) {
    last_ = nullptr;
    if (ahead_.next != ahead_.queue->end() && ahead_.next->IsAhead()) {
      last_ = &ground_.state.jobs.at((ahead_.next++)->job);
    }
    for (const bool waits : {false, true}) {
      Line* best = last_ == nullptr ? Best(waits) : nullptr;
      if (best != nullptr) last_ = Take(*best);
    }
    if (last_ == nullptr) return nullptr;
    if (ended_.empty() || !ended_.contains({ProjectOf(*last_), ground_.KindOf(*last_)}))
      return last_;
  }
  return nullptr;
}

const v1::JobRecord* QueueWalk::Take(Line& line) {
  line.claim.reset();
  return &ground_.state.jobs.at((NextOf(line)->next++)->job);
}

void QueueWalk::Waits() {
  if (one_queue_) return;
  for (Line& line : lines_) {
    if (line.project == ProjectOf(*last_) && line.kind == ground_.KindOf(*last_)) line.waits = true;
  }
}

void QueueWalk::EndLine() {
  ended_.emplace(ProjectOf(*last_), ground_.KindOf(*last_));
  std::erase_if(lines_, [&](const Line& line) {
    return !one_queue_ && ended_.contains({line.project, line.kind});
  });
}

QueueWalk::Cursor* QueueWalk::NextOf(Line& line) {
  Cursor* first = nullptr;
  for (Cursor& cursor : line.cursors) {
    if (cursor.next == cursor.queue->end()) continue;
    if (first == nullptr || *cursor.next < *first->next) first = &cursor;
  }
  return first;
}

QueueWalk::Line* QueueWalk::Best(bool waits) {
  Line* best = nullptr;
  for (Line& line : lines_) {
    if (line.waits != waits) continue;
    const Cursor* cursor = NextOf(line);
    if (cursor == nullptr) continue;
    if (one_queue_) return &line;
    const Claim& claim = ClaimOf(line, cursor->next->job);
    if (best == nullptr || claim < *best->claim) best = &line;
  }
  return best;
}

const QueueWalk::Claim& QueueWalk::ClaimOf(Line& line, uint64_t id) {
  if (line.claim.has_value() && line.starts == ground_.starts()) return *line.claim;
  const v1::JobRecord& job = ground_.state.jobs.at(id);
  const ProjectShares& shares = ground_.state.projects;
  const uint64_t quota = QuotaOf(shares, line.project, line.kind);
  const uint64_t used = ground_.use.Of(line.project, line.kind);
  line.starts = ground_.starts();
  if (used + LeastDevices(job.spec().shape()) <= quota) {
    line.claim = Claim{.in_quota = true, .used = used, .parts = quota, .job = id};
  } else {
    line.claim = Claim{.used = ground_.use.Borrowed(line.project, line.kind),
                       .parts = WeightOf(shares, line.project),
                       .job = id};
  }
  return *line.claim;
}

bool QueueWalk::Claim::operator<(const Claim& other) const {
  if (in_quota != other.in_quota) return in_quota;
  // used / parts < other.used / other.parts, without rounding. All are below 2^32.
  const uint64_t own = used * other.parts, others = other.used * parts;
  return own != others ? own < others : job < other.job;
}

}  // namespace muster::coordinator
