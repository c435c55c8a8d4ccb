#include "coordinator/findings/samples.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

template <typename T>
void KeepNewest(std::deque<std::pair<int64_t, T>>& newest) {
  while (newest.front().first <= newest.back().first - SampleHistory::kNewestMs) newest.pop_front();
}

}  // namespace

bool SampleHistory::BelongsTo(uint32_t attempt) {
  if (attempt > attempt_) {
    *this = {};
    attempt_ = attempt;
  }
  return attempt == attempt_;
}

void SampleHistory::TakeEarlier(const v1::SampleBatch& highest, int64_t batches) {
  if (!BelongsTo(highest.attempt())) return;
  have_met_ = have_met_ || highest.meeting() == v1::MEETING_SEEN;
  if (highest.meeting() == v1::MEETING_NOT_SEEN) apart_ += batches;
  for (const v1::RankSample& sample : highest.ranks()) {
    if (ranks_.size() >= kRanksMax && !ranks_.contains(sample.rank())) continue;
    RankSamples& rank = ranks_[sample.rank()];
    rank.node = highest.node();
    rank.samples += batches;
    if (sample.cpu_cores() >= kBusyCores) {
      rank.busy += batches;
      rank.idle_since_ms = highest.time_ms();
    }
  }
  for (const v1::DeviceSample& sample : highest.devices()) {
    const DeviceKey key{highest.node(), sample.device()};
    if (devices_.size() >= kDevicesMax && !devices_.contains(key)) continue;
    DeviceSamples& device = devices_[key];
    device.samples += batches;
    if (sample.utilization() >= kBusyUtilization) device.busy += batches;
  }
}

void SampleHistory::Take(const v1::SampleBatch& batch) {
  if (!BelongsTo(batch.attempt())) return;
  int64_t& newest = newest_ms_[batch.node()];
  if (batch.time_ms() <= newest) return;
  newest = batch.time_ms();
  have_met_ = have_met_ || batch.meeting() == v1::MEETING_SEEN;
  if (batch.meeting() == v1::MEETING_NOT_SEEN) ++apart_;
  for (const v1::RankSample& sample : batch.ranks()) TakeRank(batch, sample);
  for (const v1::DeviceSample& sample : batch.devices()) TakeDevice(batch, sample);
}

void SampleHistory::TakeRank(const v1::SampleBatch& batch, const v1::RankSample& sample) {
  if (ranks_.size() >= kRanksMax && !ranks_.contains(sample.rank())) return;
  RankSamples& rank = ranks_[sample.rank()];
  rank.node = batch.node();
  rank.newest.emplace_back(batch.time_ms(), sample);
  KeepNewest(rank.newest);
  ++rank.samples;
  if (sample.cpu_cores() >= kBusyCores) {
    ++rank.busy;
    rank.idle_since_ms = batch.time_ms();
  }
  TakeResident(sample.rank(), batch.time_ms(), static_cast<double>(sample.resident_bytes()));
}

void SampleHistory::TakeResident(uint32_t rank, int64_t time_ms, double bytes) {
  Resident& open = open_[rank];
  if (open.count == 0) open.begin_ms = time_ms;
  open.sum += bytes;
  ++open.count;
  if (time_ms - open.begin_ms < stretch_ms_) return;
  std::vector<double>& resident = ranks_[rank].resident;
  resident.push_back(open.sum / static_cast<double>(open.count));
  open = {};
  if (resident.size() >= kStretchesMax) HalveStretches();
}

// For all ranks at once, so that their stretches keep equal lengths.
void SampleHistory::HalveStretches() {
  stretch_ms_ *= 2;
  for (auto& [number, rank] : ranks_) {
    std::vector<double> fewer;
    for (size_t i = 0; i + 1 < rank.resident.size(); i += 2) {
      fewer.push_back((rank.resident[i] + rank.resident[i + 1]) / 2);
    }
    rank.resident = std::move(fewer);
  }
}

void SampleHistory::TakeDevice(const v1::SampleBatch& batch, const v1::DeviceSample& sample) {
  const DeviceKey key{batch.node(), sample.device()};
  if (devices_.size() >= kDevicesMax && !devices_.contains(key)) return;
  DeviceSamples& device = devices_[key];
  if (!device.has_first) {
    device.has_first = true;
    device.first_xids = sample.xid_count();
    device.first_errors = sample.uncorrected_errors();
  }
  device.newest.emplace_back(batch.time_ms(), sample);
  KeepNewest(device.newest);
  ++device.samples;
  if (sample.utilization() >= kBusyUtilization) ++device.busy;
}

}  // namespace muster::coordinator
