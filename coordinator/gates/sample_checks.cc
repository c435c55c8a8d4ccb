#include "coordinator/gates/sample_checks.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "common/base/limits.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kTimeMsMax = 253'402'300'799'000;  // the end of the year 9999
constexpr uint32_t kIntervalMsMax = 24 * 3'600'000;
constexpr uint64_t kBytesMax = uint64_t{1} << 52;  // 4 PiB, of memory or per second
constexpr uint32_t kProcessesMax = 1 << 22;        // Linux's limit on pids
constexpr float kCoresMax = 1 << 20;
constexpr float kFaultsPerSecondMax = 1e9f;
constexpr float kStepMsMax = 1e9f;
constexpr float kWattsMax = 1e5f;
constexpr float kCelsiusMin = -300;
constexpr float kCelsiusMax = 1e4f;
constexpr uint32_t kMhzMax = 1'000'000;
constexpr int kReasonsMax = 16;
constexpr size_t kThrottleReasonBytesMax = 64;
constexpr size_t kStoreKeyBytesMax = 112;
constexpr size_t kLastLineBytesMax = 200;

bool IsWithin(float value, float least, float most) {
  return std::isfinite(value) && value >= least && value <= most;
}

// The index in "gpu:3"; empty if it is not one of the part's devices.
std::optional<uint32_t> DeviceOf(const std::string& text, const SampledPart& part) {
  const std::string prefix = StrCat(part.device_kind, ":");
  uint32_t index = 0;
  if (!text.starts_with(prefix) || !absl::SimpleAtoi(text.substr(prefix.size()), &index) ||
      text != StrCat(prefix, index)) {
    return std::nullopt;
  }
  return index;
}

std::string FaultOf(const v1::RankAtStore& store) {
  if (store.waits_for().size() > kStoreKeyBytesMax ||
      store.last_line().size() > kLastLineBytesMax || !common::IsCleanUtf8(store.waits_for()) ||
      !common::IsCleanUtf8(store.last_line())) {
    return "names a key or a line that is not a short text";
  }
  return "";
}

// Why the sample cannot be true; empty if it can.
std::string FaultOf(const v1::RankSample& sample, const SampledPart& part) {
  if (sample.rank() < part.first_rank || sample.rank() - part.first_rank >= part.ranks) {
    return "is not on this node";
  }
  if (!IsWithin(sample.cpu_cores(), 0, kCoresMax)) return "claims impossible processor time";
  if (std::max({sample.resident_bytes(), sample.read_bytes_per_s(), sample.written_bytes_per_s(),
                sample.memory_limit_bytes()}) > kBytesMax) {
    return StrCat("claims more than ", kBytesMax, " bytes");
  }
  if (std::max(sample.processes(), sample.threads()) > kProcessesMax) {
    return StrCat("claims more than ", kProcessesMax, " processes or threads");
  }
  if (!IsWithin(sample.major_faults_per_s(), 0, kFaultsPerSecondMax)) {
    return "claims impossible page faults";
  }
  if (sample.has_step() && sample.step() < 0) return "claims a step below 0";
  if (sample.has_step_ms() && !IsWithin(sample.step_ms(), 0, kStepMsMax)) {
    return "claims an impossible step time";
  }
  if (sample.open_devices_size() > static_cast<int>(common::kNodeDevicesMax)) {
    return "claims too many open devices";
  }
  if (const std::string fault = FaultOf(sample.store()); !fault.empty()) return fault;
  // A rank may also have opened devices that it does not hold.
  for (const std::string& device : sample.open_devices()) {
    if (!DeviceOf(device, part).has_value()) return "names a device of another kind";
  }
  return "";
}

std::string FaultOf(const v1::DeviceSample& sample, const SampledPart& part) {
  const std::optional<uint32_t> index = DeviceOf(sample.device(), part);
  if (!index.has_value() ||
      !std::binary_search(part.device_indexes.begin(), part.device_indexes.end(), *index)) {
    return "is not held by this attempt";
  }
  if (!IsWithin(sample.utilization(), 0, 1)) return "claims a utilization outside of 0 to 1";
  if (std::max(sample.memory_used_bytes(), sample.memory_total_bytes()) > kBytesMax) {
    return StrCat("claims more than ", kBytesMax, " bytes");
  }
  if (!IsWithin(sample.power_watts(), 0, kWattsMax)) return "claims impossible power";
  if (!IsWithin(sample.temperature_celsius(), kCelsiusMin, kCelsiusMax)) {
    return "claims an impossible temperature";
  }
  if (std::max(sample.clock_mhz(), sample.max_clock_mhz()) > kMhzMax) {
    return "claims an impossible clock";
  }
  if (sample.throttled_by_size() > kReasonsMax) return "names too many reasons";
  for (const std::string& reason : sample.throttled_by()) {
    if (reason.size() > kThrottleReasonBytesMax || !common::IsCleanUtf8(reason)) {
      return "names a reason that is not a short text";
    }
  }
  return "";
}

}  // namespace

SampledPart SampledPartOf(const v1::NodePart& part) {
  SampledPart sampled{part.first_rank(),
                      part.local_world_size(),
                      part.device_kind(),
                      {part.device_indexes().begin(), part.device_indexes().end()}};
  std::sort(sampled.device_indexes.begin(), sampled.device_indexes.end());
  return sampled;
}

absl::Status CheckSampleBatch(const v1::SampleBatch& batch, const SampledPart& part) {
  const auto refused = [&batch](const std::string& why) {
    return common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1611",
         .what = StrCat("samples of job ", batch.job(), " attempt ", batch.attempt(), " from node ",
                        common::Printable(batch.node().substr(0, common::kNameBytesMax)),
                        " were refused"),
         .why = why,
         .fix = "look for a foreign program or another release of muster-worker on that node"});
  };
  if (batch.time_ms() <= 0 || batch.time_ms() > kTimeMsMax) {
    return refused(StrCat("their time ", batch.time_ms(), " is not a valid time"));
  }
  if (batch.interval_ms() > kIntervalMsMax) {
    return refused(StrCat("an interval of ", batch.interval_ms(), " ms is longer than a day"));
  }
  if (batch.ranks_size() > kSampledRanksMax) {
    return refused(StrCat("they cover more than ", kSampledRanksMax, " ranks"));
  }
  int64_t before = -1;
  for (const v1::RankSample& sample : batch.ranks()) {
    const std::string fault = FaultOf(sample, part);
    if (!fault.empty()) return refused(StrCat("rank ", sample.rank(), " ", fault));
    if (sample.rank() <= before) return refused("ranks are not in order");
    before = sample.rank();
  }
  if (batch.devices_size() > static_cast<int>(part.device_indexes.size())) {
    return refused(StrCat("they cover ", batch.devices_size(), " devices, but the attempt holds ",
                          part.device_indexes.size()));
  }
  std::vector<std::string> devices;
  for (const v1::DeviceSample& sample : batch.devices()) {
    const std::string fault = FaultOf(sample, part);
    if (!fault.empty()) {
      return refused(
          StrCat("device \"", common::Printable(sample.device().substr(0, 100)), "\" ", fault));
    }
    devices.push_back(sample.device());
  }
  std::sort(devices.begin(), devices.end());
  if (std::adjacent_find(devices.begin(), devices.end()) != devices.end()) {
    return refused("they contain a device twice");
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
