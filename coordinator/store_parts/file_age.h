// The age of a file by its modification time, although the wall clock may be set while the daemon
// runs or is stopped: the wall clock is read only once, and no file counts as old until its users
// have had time to reconnect.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>

namespace muster::coordinator {

// After this long, an upload is removed if it was not written to, a proof if it was not asked for, and a
// blob if nothing refers to it.
inline constexpr std::chrono::hours kUnusedKept{24};

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
