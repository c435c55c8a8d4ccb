// How old a file is by its modification time, where the wall clock may be set while we run or while
// we were off: what it says is read once, and nothing is old before those who may still want it had
// the time to come back.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>

namespace muster::coordinator {

class FileAge {
 public:
  using Steady = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kFirstJudgedAfter{10};

  explicit FileAge(Steady::time_point began = Steady::now(), int64_t wall_s = time(nullptr))
      : began_(began), wall_s_(wall_s) {}
  bool IsOlderThan(const std::string& path, std::chrono::hours age) const;

 private:
  const Steady::time_point began_;
  const int64_t wall_s_;  // at began_
};

}  // namespace muster::coordinator
