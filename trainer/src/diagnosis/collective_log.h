// What this process did together with other ranks: the newest collectives of all its groups, in a
// ring. One per process, because a process hangs as a whole and groups come and go. Any thread; a
// short lock for each call. Without LibTorch.
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

  // What a collective is about. The texts are constants.
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
    uint64_t sequence = 0;  // the how manieth of the group on this rank, from 1
    Call call;
    State state = State::started;
    Clock::time_point begin;
    Clock::time_point end;
    pid_t thread = 0;  // that began it
  };
  struct Group {
    std::string name;
    std::vector<int> ranks;  // of the run
    uint64_t started = 0;    // collectives
    uint64_t ended = 0;
    bool removed = false;
  };
  struct Snapshot {
    Clock::time_point now;
    std::vector<Group> groups;
    std::vector<Entry> entries;  // oldest first
    Clock::time_point last_activity;
    std::map<std::string, std::function<std::string()>> library_traces;

    // Of the groups that still exist; null when none runs.
    const Entry* oldest_running() const;
  };

  static CollectiveLog& of_process();

  // The group's number here.
  size_t add_group(const std::string& name, const std::vector<int>& ranks);
  void remove_group(size_t group);
  // A number for end(). The entry of a collective that outlives kKept later ones is lost.
  uint64_t begin(size_t group, const Call& call);
  void end(uint64_t number, bool success);

  // A communication library's own record as JSON ("c10d": …, "nccl": …), asked when a record is
  // written. Another one of that name takes its place.
  void set_library_trace(const std::string& name, std::function<std::string()> trace);

  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Entry> ring_;   // grows to kKept; entry n lies at n % kKept
  uint64_t count_ = 0;
  std::vector<Group> groups_;
  Clock::time_point last_activity_;
  std::map<std::string, std::function<std::string()>> library_traces_;
};

// What a group's running collectives say about the run.
struct HangSign {
  // Something that has not moved since this moment: the oldest running collective's begin, or the
  // last activity when none is running. The same moment again is the same hang.
  CollectiveLog::Clock::time_point since;
  std::string reason;  // for people
};
// The sign if there is one after `patience`, else when to look again. Nothing of either: there is
// no group. Pure.
struct HangCheck {
  std::optional<HangSign> sign;
  std::optional<CollectiveLog::Clock::time_point> look_again;
};
HangCheck check_for_hang(const CollectiveLog::Snapshot& snapshot,
                         std::chrono::milliseconds patience);

// "all_reduce #12 (4 MiB float32, group default)"
std::string describe(const CollectiveLog::Entry& entry, const CollectiveLog::Group& group);

}  // namespace muster
