#include "worker/sampling/attempt_sampler.h"

#include <algorithm>

#include "common/text/strings.h"
#include "worker/devices/device_probe.h"

namespace muster::worker {

std::shared_ptr<DeviceMeter> DeviceMeters::Get(std::string_view kind) {
  const DeviceMetering* row = FindDeviceMetering(kind);
  if (row == nullptr) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = meters_.find(kind);
  if (found != meters_.end()) return found->second;
  std::shared_ptr<DeviceMeter> opened = row->open();
  meters_.emplace(kind, opened);
  return opened;
}

AttemptSampler::AttemptSampler(const AttemptKey& key, std::string node, const v1::NodePart& part,
                               uint32_t master_port, std::string account_path,
                               std::shared_ptr<DeviceMeters> meters, ProcessFiles files)
    : key_(key),
      node_(std::move(node)),
      part_(part),
      account_path_(std::move(account_path)),
      meters_(std::move(meters)),
      processes_(std::move(files), MemoryLimitBytes, [&part, this] {
        const DeviceMetering* row = FindDeviceMetering(part.device_kind());
        RankProcesses::DeviceFiles devices;
        if (row == nullptr) return devices;
        devices.kind = row->kind;
        devices.prefix = row->file_prefix;
        devices.index_of = [this](uint32_t number, uint32_t* index) {
          return meter_ != nullptr && meter_->IndexOfFile(number, index);
        };
        return devices;
      }()) {
  if (master_port != 0) meeting_.emplace(master_port);
}

std::optional<v1::SampleBatch> AttemptSampler::Take(const SampleOrder& order,
                                                    const common::Now& now) {
  if (!is_open_) meter_ = meters_->Get(part_.device_kind());
  is_open_ = true;
  for (const SampleOrder::Process& process : order.started) {
    if (process.rank - part_.first_rank() >= kRanksMax) continue;
    processes_.AddRank(process.rank, process.pid, process.start_ticks);
  }
  v1::SampleBatch batch;
  for (v1::RankSample& sample : processes_.Look(now.mono_ms)) {
    if (const auto step = order.steps.find(sample.rank()); step != order.steps.end()) {
      sample.set_step(step->second.step);
      if (step->second.step_ms > 0) sample.set_step_ms(step->second.step_ms);
    }
    if (store_) store_(&sample);
    *batch.add_ranks() = std::move(sample);
  }
  MaybeProbe();
  const int64_t before_ms = std::exchange(taken_ms_, now.mono_ms);
  if (batch.ranks().empty()) return std::nullopt;
  if (store_) {
    const bool any = std::any_of(batch.ranks().begin(), batch.ranks().end(),
                                 [](const auto& rank) { return rank.store().joined(); });
    batch.set_meeting(any ? v1::MEETING_SEEN : v1::MEETING_NOT_SEEN);
  }
  if (meeting_.has_value()) {
    if (!meeting_->IsSeen()) meeting_->Look(processes_.Members());
    batch.set_meeting(meeting_->IsSeen() ? v1::MEETING_SEEN : v1::MEETING_NOT_SEEN);
  }
  if (FindDeviceMetering(part_.device_kind()) != nullptr) {
    for (const uint32_t index : part_.device_indexes()) {
      v1::DeviceSample& sample = *batch.add_devices();
      sample.set_device(common::StrCat(part_.device_kind(), ":", index));
      if (meter_ != nullptr) meter_->Measure(index, &sample);
    }
  }
  batch.set_job(key_.job);
  batch.set_attempt(key_.attempt);
  batch.set_node(node_);
  batch.set_time_ms(now.wall_ms);
  batch.set_interval_ms(static_cast<uint32_t>(now.mono_ms - before_ms));
  return batch;
}

void AttemptSampler::MaybeProbe() {
  if (next_probe_ == 0 || ++samples_ < next_probe_) return;
  next_probe_ = next_probe_ >= kLastProbe ? 0 : next_probe_ * 2;
  const RankAccount account = ReadAccount(account_path_);
  for (const pid_t pid : processes_.SomePids(kProbedMax)) {
    framework_ = ProbeFramework(pid, account);
    if (!framework_.has_value()) continue;
    next_probe_ = 0;
    return;
  }
}

}  // namespace muster::worker
