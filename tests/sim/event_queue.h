// Simulated time: closures ordered by (time, number). The same seed gives the same order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace muster::sim {

class EventQueue {
 public:
  explicit EventQueue(uint64_t seed) : random_(seed) {}

  int64_t now_ms() const { return now_ms_; }
  void After(int64_t delay_ms, std::function<void()> action) {
    events_.emplace(std::pair(now_ms_ + std::max<int64_t>(delay_ms, 0), next_++),
                    std::move(action));
  }
  // Runs the next event; false if none is left before `until_ms`.
  bool Step(int64_t until_ms) {
    if (events_.empty() || events_.begin()->first.first > until_ms) return false;
    auto event = events_.extract(events_.begin());
    now_ms_ = event.key().first;
    event.mapped()();
    return true;
  }

  // One line of the run's history, with its simulated time in seconds.
  void Trace(const std::string& line) const {
    if (trace) std::printf("%10.3f  %s\n", static_cast<double>(now_ms_) / 1000, line.c_str());
  }
  bool trace = false;

  // Uniform in [low, high].
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

 private:
  std::mt19937_64 random_;
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> events_;
  uint64_t next_ = 0;
  int64_t now_ms_ = 0;
};

}  // namespace muster::sim
