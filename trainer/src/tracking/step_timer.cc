// The step timer's arithmetic; see muster/tracking/step_timer.h.
#include "muster/tracking/step_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace muster {
namespace {

constexpr double kSecond = 1e9;  // in nanoseconds

// `values` is sorted. Nearest rank.
double percentile(const std::vector<double>& values, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

TimeStatistics statistics_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), percentile(values, 0.5),
          percentile(values, 0.95), values.back()};
}

double phases_mean(const StepTimeSummary& of) {
  return of[StepPart::forward].mean + of[StepPart::backward].mean + of[StepPart::optimizer].mean;
}

// Whether anything counted as compute, or nothing as a phase of it.
bool has_compute(const StepTimeSummary& of) {
  return of[StepPart::compute].mean > 0 || phases_mean(of) == 0;
}

}  // namespace

double StepTimes::other() const {
  return std::max(0.0, total - std::accumulate(parts.begin(), parts.end(), 0.0));
}

std::string StepTimeSummary::line() const {
  constexpr size_t kColumns = 80;
  const bool seconds = total.mean >= 1;
  const auto number = [&](double value) {
    value *= seconds ? 1 : 1e3;
    char text[32];
    std::snprintf(text, sizeof(text), value < 999.5 ? "%.3g" : "%.0f", value);
    return std::string(text);
  };
  const auto percent = [&](const char* name, double seconds_mean) {
    const double share = total.mean > 0 ? std::min(seconds_mean / total.mean, 1.0) : 0;
    return std::string(" ") + name + " " + std::to_string(std::lround(100 * share)) + "%";
  };
  const std::string mean = number(total.mean) + (seconds ? " s/step" : " ms/step");
  std::string shares = " |" + percent("data", (*this)[StepPart::data_wait].mean);
  if (has_compute(*this)) {
    shares += percent("compute", (*this)[StepPart::compute].mean + phases_mean(*this));
  } else {
    shares += percent("fwd", (*this)[StepPart::forward].mean) +
              percent("bwd", (*this)[StepPart::backward].mean) +
              percent("opt", (*this)[StepPart::optimizer].mean);
  }
  shares += percent("comm", (*this)[StepPart::communication].mean) +
            percent("ckpt", (*this)[StepPart::checkpoint].mean) + percent("other", other.mean);
  const std::string p95 = " (p95 " + number(total.p95);
  for (const std::string& spread : {p95 + ", max " + number(total.max) + ")", p95 + ")"}) {
    if (mean.size() + spread.size() + shares.size() <= kColumns) return mean + spread + shares;
  }
  return mean + shares;
}

StepTimer::StepTimer(StepTimerOptions options) : options_(std::move(options)) {
  if (options_.window == 0)
    throw std::invalid_argument("StepTimerOptions::window must be at least 1");
  ring_.reserve(options_.window);
  restart();
}

int64_t StepTimer::now_ns() const {
  if (options_.now_ns) return options_.now_ns();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void StepTimer::begin_section(StepPart part) {
  count_communication();
  open_.push_back({part, now_ns(), 0});
}

void StepTimer::end_section() {
  count_communication();
  const Open section = open_.back();
  open_.pop_back();
  const int64_t whole = now_ns() - section.begin_ns;
  parts_ns_[static_cast<size_t>(section.part)] += whole - section.inner_ns;
  if (!open_.empty()) open_.back().inner_ns += whole;
}

void StepTimer::add(StepPart part, double seconds) {
  const auto duration = static_cast<int64_t>(std::llround(seconds * kSecond));
  parts_ns_[static_cast<size_t>(part)] += duration;
  if (!open_.empty()) open_.back().inner_ns += duration;
}

void StepTimer::count_communication() {
  if (!options_.communication_ns) return;
  const int64_t counted = std::exchange(communication_ns_, options_.communication_ns());
  const int64_t grown = communication_ns_ - counted;
  parts_ns_[static_cast<size_t>(StepPart::communication)] += grown;
  if (!open_.empty()) open_.back().inner_ns += grown;
}

StepTimes StepTimer::end_step() {
  count_communication();
  const int64_t now = now_ns();
  // Open sections count toward this step up to now, each without its nested ones.
  int64_t inside = 0;
  for (size_t i = open_.size(); i-- > 0;) {
    Open& section = open_[i];
    const int64_t whole = now - section.begin_ns;
    parts_ns_[static_cast<size_t>(section.part)] += whole - section.inner_ns - inside;
    inside = whole;
    section.begin_ns = now;
    section.inner_ns = 0;
  }
  StepTimes times;
  times.total = static_cast<double>(now - step_begin_ns_) / kSecond;
  for (size_t i = 0; i < kStepParts; ++i) {
    times.parts[i] = static_cast<double>(std::max<int64_t>(parts_ns_[i], 0)) / kSecond;
  }
  parts_ns_.fill(0);
  step_begin_ns_ = now;
  if (ring_.size() < options_.window) {
    ring_.push_back(times);
  } else {
    ring_[static_cast<size_t>(steps_) % options_.window] = times;
  }
  ++steps_;
  return times;
}

void StepTimer::restart() {
  count_communication();
  step_begin_ns_ = now_ns();
  parts_ns_.fill(0);
  for (Open& section : open_) {
    section.begin_ns = step_begin_ns_;
    section.inner_ns = 0;
  }
}

StepTimeSummary StepTimer::summary() const {
  StepTimeSummary summary;
  summary.steps = ring_.size();
  const auto over_steps = [&](auto field) {
    std::vector<double> values(ring_.size());
    std::transform(ring_.begin(), ring_.end(), values.begin(), field);
    return statistics_of(std::move(values));
  };
  summary.total = over_steps([](const StepTimes& times) { return times.total; });
  summary.other = over_steps([](const StepTimes& times) { return times.other(); });
  for (size_t i = 0; i < kStepParts; ++i) {
    summary.parts[i] = over_steps([i](const StepTimes& times) { return times.parts[i]; });
  }
  return summary;
}

std::vector<ScalarValue> StepTimer::metrics() const {
  const StepTimeSummary over = summary();
  std::vector<ScalarValue> values = {{"time/step", over.total.mean},
                                     {"time/step_p95", over.total.p95},
                                     {"time/data_wait", over[StepPart::data_wait].mean}};
  if (has_compute(over)) values.push_back({"time/compute", over[StepPart::compute].mean});
  if (phases_mean(over) > 0) {
    values.push_back({"time/forward", over[StepPart::forward].mean});
    values.push_back({"time/backward", over[StepPart::backward].mean});
    values.push_back({"time/optimizer", over[StepPart::optimizer].mean});
  }
  values.push_back({"time/communication", over[StepPart::communication].mean});
  values.push_back({"time/checkpoint", over[StepPart::checkpoint].mean});
  values.push_back({"time/other", over.other.mean});
  return values;
}

}  // namespace muster
