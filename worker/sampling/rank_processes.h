// The processes of an attempt's ranks and what they used since the previous look. A rank is the
// process that was launched and its descendants: children of a known process, and every process in
// the rank's session. Processes may vanish at any moment and pids may be reused. The cost of a look
// is bounded by the limits below, whatever a job does. One thread at a time.
//
// A look lists /proc but reads only the ranks' processes and those that are new since the last
// look: other processes of the host are remembered by pid.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/v1/sample.pb.h"
#include "worker/sampling/process_files.h"

namespace muster::worker {

class RankProcesses {
 public:
  // limit: samples: measured processes of a rank; others are not measured
  static constexpr size_t kPerRankMax = 256;       // measured processes of a rank
  static constexpr size_t kPidsMax = 65'536;       // listed in a look
  static constexpr size_t kNewPerLookMax = 4'096;  // processes seen for the first time in a look
  static constexpr size_t kDescriptorsMax = 512;   // of a process, searched for devices
  static constexpr uint32_t kLookAgainEvery = 60;  // looks until all pids are read again

  struct DeviceFiles {
    std::string kind;
    std::string prefix;  // "/dev/nvidia": the rest of the name is a number
    std::function<bool(uint32_t number, uint32_t* index)> index_of;  // false: no such device
  };

  // `limit_of`: the memory that processes with these cgroups (/proc/PID/cgroup) may use.
  RankProcesses(ProcessFiles files, std::function<uint64_t(const std::string&)> limit_of,
                DeviceFiles devices);

  // `start_ticks` as in ProcessUse; 0: not known.
  void AddRank(uint32_t rank, pid_t pid, uint64_t start_ticks);
  // One sample of each rank that has been seen before, in order of rank. `now_ms`: since boot.
  std::vector<v1::RankSample> Look(int64_t now_ms);
  // Some processes of the last look, at most `max`: those that were launched first.
  std::vector<pid_t> SomePids(size_t max) const;
  // All processes of the last look, with their ranks.
  std::vector<std::pair<uint32_t, pid_t>> Members() const;

 private:
  struct Member {
    uint32_t rank = 0;
    ProcessUse before;  // in the last look, or when it started
    ProcessUse now;
  };
  struct Rank {
    pid_t pid = 0;
    uint64_t start_ticks = 0;
    bool has_sample = false;  // rates need a previous look
    size_t members = 0;
    uint64_t memory_limit = 0;
    std::vector<std::string> open_devices;
  };
  // The resources that a rank used since the last look.
  struct Used {
    uint64_t cpu_ticks = 0, major_faults = 0, read_bytes = 0, written_bytes = 0;
    uint64_t resident_pages = 0;
    uint32_t processes = 0, threads = 0;
  };

  // Returns the members that are gone.
  std::unordered_map<pid_t, Member> ReadMembers();
  // Charges what a vanished process had used to the nearest living ancestor, where it appears as
  // the use of a child that was waited for. It was counted already, so it must not count twice.
  void Charge(const std::unordered_map<pid_t, Member>& vanished);
  bool MayFindAny() const;
  void FindNew();
  bool Adopt(const ProcessUse& use);
  bool IsRoot(const Rank& rank, const ProcessUse& use) const;
  void Add(Member& member, Used& used) const;
  void FindLimitsAndDevices();
  v1::RankSample SampleOf(uint32_t number, const Rank& rank, const Used& used,
                          double seconds) const;

  ProcessFiles files_;
  const std::function<uint64_t(const std::string&)> limit_of_;
  const DeviceFiles devices_;
  const int64_t ticks_per_second_;
  const uint64_t page_bytes_;

  std::map<uint32_t, Rank> ranks_;
  std::unordered_map<pid_t, Member> members_;
  std::unordered_map<pid_t, ProcessUse> charged_;  // by living parent, until the next look
  std::vector<pid_t> pids_;                        // of this look
  std::vector<pid_t> foreign_;                     // ascending: not of these ranks
  int64_t looked_ms_ = 0;                          // 0: never
  uint32_t looks_ = 0;
};

}  // namespace muster::worker
