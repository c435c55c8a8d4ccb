// The schedule of a profile and the overlap of intervals. Pure.
#include <algorithm>

#include "profiling/summary.h"

namespace muster {

std::vector<TimeInterval> united(std::vector<TimeInterval> intervals) {
  std::erase_if(intervals, [](const TimeInterval& piece) { return piece.end <= piece.begin; });
  std::sort(intervals.begin(), intervals.end(),
            [](const TimeInterval& a, const TimeInterval& b) { return a.begin < b.begin; });
  std::vector<TimeInterval> pieces;
  for (const TimeInterval& interval : intervals) {
    if (pieces.empty() || interval.begin > pieces.back().end) {
      pieces.push_back(interval);
    } else {
      pieces.back().end = std::max(pieces.back().end, interval.end);
    }
  }
  return pieces;
}

namespace {

double seconds(const std::vector<TimeInterval>& pieces) {
  int64_t sum = 0;
  for (const TimeInterval& piece : pieces) sum += piece.end - piece.begin;
  return static_cast<double>(sum) / 1e9;
}

}  // namespace

std::vector<TimeInterval> without_intervals(std::vector<TimeInterval> from,
                                            std::vector<TimeInterval> without) {
  const std::vector<TimeInterval> holes = united(std::move(without));
  std::vector<TimeInterval> rest;
  size_t first = 0;  // the first hole that may still overlap
  for (TimeInterval piece : united(std::move(from))) {
    while (first < holes.size() && holes[first].end <= piece.begin) ++first;
    for (size_t i = first; i < holes.size() && holes[i].begin < piece.end; ++i) {
      if (holes[i].begin > piece.begin) rest.push_back({piece.begin, holes[i].begin});
      piece.begin = std::max(piece.begin, holes[i].end);
    }
    if (piece.begin < piece.end) rest.push_back(piece);
  }
  return rest;
}

Overlap overlap_of(std::vector<TimeInterval> communication, std::vector<TimeInterval> compute) {
  const std::vector<TimeInterval> a = united(std::move(communication));
  const std::vector<TimeInterval> b = united(std::move(compute));
  std::vector<TimeInterval> both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const TimeInterval common = {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (common.begin < common.end) both.push_back(common);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return {.communication = seconds(a), .compute = seconds(b), .overlapped = seconds(both)};
}

ProfileAction profile_action(const ProfileOptions& options, int64_t step) {
  if (step < options.skip_first) return ProfileAction::none;
  if (options.active == 0) return ProfileAction::record;
  step -= options.skip_first;
  if (options.skip_first_wait) step += options.wait;
  const int64_t length = options.wait + options.warmup + options.active;
  if (options.repeat > 0 && step / length >= options.repeat) return ProfileAction::none;
  const int64_t place = step % length;
  if (place < options.wait) return ProfileAction::none;
  if (place < options.wait + options.warmup) return ProfileAction::warmup;
  return place < length - 1 ? ProfileAction::record : ProfileAction::record_and_save;
}

}  // namespace muster
