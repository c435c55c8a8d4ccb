// Rules for devices that are slower than they could be, or that fail.
#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kThrottleWindowMs = 30'000;
constexpr size_t kThrottleSamplesLeast = 20;
constexpr double kThrottledShare = 0.8;  // of the samples: short dips are normal
// Below this share of its highest clock a device is noticeably slower.
constexpr double kClockHeldDown = 0.85;
// Under load a device runs at its power limit most of the time; only a deep cut is a finding.
constexpr double kClockPowerCapped = 0.6;

struct ClockView {
  size_t samples = 0;
  size_t held = 0;
  double clock_share = 0;  // mean while held
  std::string why;
  double celsius = 0;
};

ClockView LookAtClock(const DeviceSamples& device) {
  ClockView view;
  const int64_t begin_ms =
      device.newest.empty() ? 0 : device.newest.back().first - kThrottleWindowMs;
  for (const auto& [time_ms, sample] : device.newest) {
    if (time_ms < begin_ms) continue;
    ++view.samples;
    if (sample.throttled_by().empty() || sample.max_clock_mhz() == 0) continue;
    const double share = static_cast<double>(sample.clock_mhz()) / sample.max_clock_mhz();
    const bool only_power = std::all_of(sample.throttled_by().begin(), sample.throttled_by().end(),
                                        [](const std::string& why) { return why == "power"; });
    if (share >= (only_power ? kClockPowerCapped : kClockHeldDown)) continue;
    ++view.held;
    view.clock_share += share;
    view.why = only_power
                   ? "power"
                   : *std::find_if(sample.throttled_by().begin(), sample.throttled_by().end(),
                                   [](const auto& why) { return why != "power"; });
    view.celsius = sample.temperature_celsius();
  }
  if (view.held > 0) view.clock_share /= static_cast<double>(view.held);
  return view;
}

}  // namespace

// A device's clock is held down by heat, hardware or a power cut.
// Silent: with fewer than 20 samples in the last half minute; unless four of five samples show it; above
// 85 % of the highest clock, or above 60 % if only the power limit holds it down.
std::optional<v1::Finding> Throttled(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  if (attempt == nullptr || evidence.samples.attempt() != attempt->number()) return std::nullopt;
  for (const auto& [key, device] : evidence.samples.devices()) {
    const ClockView view = LookAtClock(device);
    if (view.samples < kThrottleSamplesLeast) continue;
    if (static_cast<double>(view.held) < kThrottledShare * static_cast<double>(view.samples)) {
      continue;
    }
    v1::Finding finding = MakeFinding(
        v1::FINDING_SEVERITY_WARNING,
        {absl::StrCat(key.second, " on ", key.first, " runs at ", Percent(view.clock_share),
                      " of its clock: ", view.why),
         view.why == "thermal" ? "it is too hot: airflow, dust, a failed fan or a neighbor"
                               : absl::StrCat("the hardware holds it down (", view.why, ")"),
         absl::StrCat("jobctl nodes drain ", key.first, " --reason 'slow device'")});
    AddNumber(finding, "clock", view.clock_share * 100, "%");
    if (view.celsius > 0) AddNumber(finding, "temperature", view.celsius, "°C");
    finding.set_node(key.first);
    finding.set_device(key.second);
    // All devices wait for the slowest one at every step; a sample in `held` stands for one second.
    SetWaste(finding, (1 - view.clock_share) * static_cast<double>(DevicesOf(*attempt)) *
                          static_cast<double>(view.held));
    return finding;
  }
  return std::nullopt;
}

// A device reported faults (Xid) or uncorrected memory errors during this attempt.
// Silent: about errors from before the attempt's first sample.
std::optional<v1::Finding> DeviceErrors(const Evidence& evidence, const v1::Ledger&) {
  // Also for an attempt that has failed: these errors may have caused it.
  if (evidence.job.attempts().empty() ||
      evidence.samples.attempt() != evidence.job.attempts().rbegin()->number()) {
    return std::nullopt;
  }
  for (const auto& [key, device] : evidence.samples.devices()) {
    if (device.newest.empty()) continue;
    const v1::DeviceSample& last = device.newest.back().second;
    const auto grown = [](uint64_t now, uint64_t then) { return now > then ? now - then : 0; };
    const uint64_t xids = grown(last.xid_count(), device.first_xids);
    const uint64_t errors = grown(last.uncorrected_errors(), device.first_errors);
    if (xids == 0 && errors == 0) continue;
    v1::Finding finding =
        MakeFinding(v1::FINDING_SEVERITY_ERROR,
                    {absl::StrCat(key.second, " on ", key.first, " reported ",
                                  xids > 0 ? absl::StrCat("Xid ", last.last_xid())
                                           : absl::StrCat(errors, " uncorrected memory errors"),
                                  " during this attempt"),
                     "the device or its memory fails; results may be wrong",
                     absl::StrCat("jobctl nodes drain ", key.first, " --reason 'device errors'")});
    AddNumber(finding, "Xid faults", static_cast<double>(xids));
    AddNumber(finding, "uncorrected errors", static_cast<double>(errors));
    finding.set_node(key.first);
    finding.set_device(key.second);
    return finding;
  }
  return std::nullopt;
}

}  // namespace muster::coordinator
