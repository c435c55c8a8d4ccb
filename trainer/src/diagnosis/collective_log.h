// A ring buffer of this process's newest collectives, over all its groups. One per process, because
// a process hangs as a whole while groups are created and destroyed. Any thread; each call takes a
// short lock. Without LibTorch.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class CollectiveLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kKept = 1'024;  // collectives

  // What a collective does. The strings are constants.
  struct Call {
    const char* operation = "";  // "all_reduce"
    const char* dtype = "";      // "float32"
    int64_t elements = 0;        // of this rank's input
    int64_t bytes = 0;
    const char* carrier = "";  // "gloo", "shared memory"
  };
  enum class State { started, finished, failed };
  struct Entry {
    size_t group = 0;       // index into Snapshot::groups
    uint64_t sequence = 0;  // counts the group's collectives on this rank, from 1
    Call call;
    State state = State::started;
    Clock::time_point begin;
    Clock::time_point end;
    pid_t thread = 0;  // the thread that started it
  };
  struct Group {
    std::string name;
    std::vector<int> ranks;  // global ranks
    uint64_t started = 0;    // number of collectives
    uint64_t ended = 0;
    bool removed = false;
  };
  struct Snapshot {
    Clock::time_point now;
    std::vector<Group> groups;
    std::vector<Entry> entries;  // oldest first
    Clock::time_point last_activity;
    std::map<std::string, std::function<std::string()>> library_traces;

    // Among groups that still exist; null if none is running.
    const Entry* oldest_running() const;
  };

  static CollectiveLog& of_process();

  // Returns the group's index in this log.
  size_t add_group(const std::string& name, const std::vector<int>& ranks);
  void remove_group(size_t group);
  // Returns the number to pass to end(). The entry of a collective that outlives kKept later ones
  // is lost.
  uint64_t begin(size_t group, const Call& call);
  void end(uint64_t number, bool success);

  // Registers a communication library's own record as JSON ("c10d": …, "nccl": …), fetched when a
  // record is written. Replaces an earlier one of the same name.
  void set_library_trace(const std::string& name, std::function<std::string()> trace);

  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Entry> ring_;   // grows to kKept; entry n is at n % kKept
  uint64_t count_ = 0;
  std::vector<Group> groups_;
  Clock::time_point last_activity_;
  std::map<std::string, std::function<std::string()>> library_traces_;
};

// A sign that the run hangs.
struct HangSign {
  // When progress stopped: the start of the oldest running collective, or the last activity if none
  // is running. The same time means the same hang.
  CollectiveLog::Clock::time_point since;
  std::string reason;  // for people
};
// The sign, if there is one after `patience`, else when to check again. Neither if there is no
// group. Pure.
struct HangCheck {
  std::optional<HangSign> sign;
  std::optional<CollectiveLog::Clock::time_point> look_again;
};
HangCheck check_for_hang(const CollectiveLog::Snapshot& snapshot,
                         std::chrono::milliseconds patience);

// "all_reduce #12 (4 MiB float32, group default)"
std::string describe(const CollectiveLog::Entry& entry, const CollectiveLog::Group& group);

}  // namespace muster
