// The samples of one attempt in bounded memory: the newest minute second by second, and coarse
// totals since the attempt began to run. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/v1/sample.pb.h"

namespace muster::coordinator {

// A rank's process tree, or a device, counts as busy in a second above this. A rank that only polls
// uses less; one that trains uses far more.
inline constexpr double kBusyCores = 0.05;
inline constexpr double kBusyUtilization = 0.02;

// Everything of one rank.
struct RankSamples {
  std::string node;
  std::deque<std::pair<int64_t, v1::RankSample>> newest;  // by the node's clock, ms
  int64_t samples = 0;                                    // in all
  int64_t busy = 0;                                       // of these
  int64_t idle_since_ms =
      0;  // by the node's clock: no sample since then was busy; 0: none ever was
  std::vector<double> resident;  // means over stretches of equal length, oldest first
};
struct DeviceSamples {
  std::deque<std::pair<int64_t, v1::DeviceSample>> newest;
  int64_t samples = 0;
  int64_t busy = 0;
  uint64_t first_xids = 0;  // as of the attempt's first sample
  uint64_t first_errors = 0;
  bool has_first = false;
};
using DeviceKey = std::pair<std::string, std::string>;  // node, "KIND:INDEX"

class SampleHistory {
 public:
  static constexpr int64_t kNewestMs = 60'000;
  static constexpr size_t kRanksMax = 4'096;
  static constexpr size_t kDevicesMax = 8'192;
  static constexpr size_t kStretchesMax = 64;

  // Batches of an older attempt, and those already taken, change nothing.
  void Take(const v1::SampleBatch& batch);
  // Adds earlier samples than the first batch: the highest values of a stretch of `batches`.
  void TakeEarlier(const v1::SampleBatch& highest, int64_t batches);

  uint32_t attempt() const { return attempt_; }
  const std::map<uint32_t, RankSamples>& ranks() const { return ranks_; }
  const std::map<DeviceKey, DeviceSamples>& devices() const { return devices_; }
  // The number of batches in which no node had seen the ranks meet; -1: a node has seen it, or no
  // node checks.
  int64_t apart() const { return have_met_ ? -1 : apart_; }
  bool empty() const { return ranks_.empty() && devices_.empty(); }
  // How long each entry of RankSamples::resident covers; at first ten seconds.
  int64_t stretch_ms() const { return stretch_ms_; }

 private:
  struct Resident {
    int64_t begin_ms = 0;
    double sum = 0;
    int64_t count = 0;
  };
  void TakeRank(const v1::SampleBatch& batch, const v1::RankSample& sample);
  void TakeResident(uint32_t rank, int64_t time_ms, double bytes);
  void TakeDevice(const v1::SampleBatch& batch, const v1::DeviceSample& sample);
  void HalveStretches();
  // False: it is an older attempt.
  bool BelongsTo(uint32_t attempt);

  uint32_t attempt_ = 0;
  std::map<std::string, int64_t> newest_ms_;  // by node
  std::map<uint32_t, RankSamples> ranks_;
  std::map<DeviceKey, DeviceSamples> devices_;
  std::map<uint32_t, Resident> open_;
  bool have_met_ = false;
  int64_t apart_ = 0;
  int64_t stretch_ms_ = 10'000;
};

}  // namespace muster::coordinator
