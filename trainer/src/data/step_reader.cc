// Plans steps; see step_reader.h.
#include "data/step_reader.h"

#include <algorithm>
#include <utility>

#include "muster/base/errors.h"

namespace muster {

int64_t taken_of(const ShardRule& rule, int64_t left) {
  if (left <= 0 || (left < rule.step_size() && rule.options().drop_last)) return 0;
  return std::min(left, rule.step_size());
}

std::vector<int64_t> places_of(const ShardRule& rule, ProducedRanks ranks, int64_t taken) {
  std::vector<int64_t> places;
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    const StepShare share = rule.share(taken, rank);
    for (int64_t i = 0; i < share.count; ++i) places.push_back(share.begin + i);
  }
  return places;
}

std::optional<Step> MapSteps::next() {
  const int64_t left = order_.size() - consumed_;
  const int64_t taken = taken_of(rule_, left);
  if (taken == 0) return std::nullopt;
  Step step;
  step.info = {consumed_, taken, taken_of(rule_, left - taken)};
  step.picks = places_of(rule_, ranks_, taken);
  for (int64_t& pick : step.picks) {
    pick = order_.at(pick < taken ? consumed_ + pick : (pick - taken) % order_.size());
  }
  consumed_ += taken;
  return step;
}

void StreamSteps::keep(const loader_detail::AnySamples& samples) {
  const int64_t more = std::min(rule_.fill_max() - kept_, samples.size());
  if (more <= 0) return;
  source_.keep_first(samples, more);
  kept_ += more;
}

void StreamSteps::go_to_start() {
  source_.reset(start_.epoch);
  const int64_t kept = std::min(rule_.fill_max(), start_.consumed);
  if (kept > 0) {
    const Samples first = source_.read(kept, read_);
    keep(*first);
  }
  if (read_ == kept && start_.consumed > kept) read_ += source_.skip(start_.consumed - kept);
  if (read_ < start_.consumed) {
    throw DataError("the stream ended after " + std::to_string(read_) +
                    " samples, before the position " + std::to_string(start_.consumed) +
                    " to resume at: is it from another dataset?");
  }
}

void StreamSteps::read_ahead() {
  ahead_.reset();
  try {
    ahead_ = source_.read(rule_.step_size(), read_);
    keep(*ahead_);
  } catch (...) {
    ahead_error_ = std::current_exception();
  }
}

std::optional<Step> StreamSteps::next() {
  if (!started_) {
    go_to_start();
    started_ = true;
    read_ahead();
  }
  if (ahead_error_) std::rethrow_exception(std::exchange(ahead_error_, nullptr));
  const int64_t taken = ahead_ ? taken_of(rule_, ahead_->size()) : 0;
  if (taken == 0) return std::nullopt;
  Step step;
  step.info = {read_ - taken, taken, 0};
  step.samples = std::move(ahead_);
  if (taken == rule_.step_size()) {
    read_ahead();
    // A read error is delivered at its own step, so this step is not the last.
    step.info.next_taken = ahead_error_ ? rule_.step_size() : taken_of(rule_, ahead_->size());
  }
  step.picks = places_of(rule_, ranks_, taken);
  return step;
}

}  // namespace muster
