// Devices that a job requested but does not use.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/device_kinds.h"
#include "common/text/text.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

// Half a minute of samples decides: the finding appears within a minute, and by then a Python
// program has started up.
constexpr int64_t kDecidingShare = 2;  // of the floor
// The ranks must have run this long: imports and the first data keep only one core busy.
constexpr double kWarmUpShare = 2.0 / 3;
// Use of up to this much above whole cores does not count: threads of the runtime and of loaders.
constexpr double kCoreSlack = 0.2;
// A rank or device that was busy for a larger share of its time is taken to take turns with others.
constexpr double kWorkedBefore = 0.1;
// If nothing is busy at all, the job may be waiting for data or a lock, so wait for ten floors.
constexpr int64_t kAllIdleFloors = 10;
constexpr int64_t kStepsBefore = 5;  // of a trainer that reports any

// The samples of the last `window_ms`; empty: they do not cover it yet.
template <typename T>
std::vector<const T*> Deciding(const std::deque<std::pair<int64_t, T>>& newest, int64_t window_ms) {
  constexpr int64_t kSlackMs = 1'500;  // samples come once a second
  std::vector<const T*> found;
  if (newest.empty()) return found;
  const int64_t begin_ms = newest.back().first - window_ms;
  if (newest.front().first > begin_ms + kSlackMs) return found;
  for (const auto& [time_ms, sample] : newest) {
    if (time_ms >= begin_ms) found.push_back(&sample);
  }
  return found;
}

double HighCores(const std::vector<const v1::RankSample*>& samples) {
  std::vector<double> cores;
  for (const v1::RankSample* sample : samples) cores.push_back(sample->cpu_cores());
  std::sort(cores.begin(), cores.end());
  return cores[(cores.size() - 1) * 9 / 10];
}

struct IdleCount {
  int64_t asked = 0;
  int64_t busy = 0;
  bool is_known = true;
  std::vector<uint32_t> idle_ranks;     // none of their devices is busy
  std::vector<uint32_t> partial_ranks;  // some are
  double most_cores = 0;                // of a partial rank
  uint32_t most_processes = 0;
  bool computes_on_cpu = false;  // a rank with idle accelerators
};

int64_t BusySlots(const Evidence& evidence, uint32_t number, const RankSamples& rank, int64_t slots,
                  double cores) {
  const auto busy = static_cast<int64_t>(std::ceil(cores - kCoreSlack));
  const bool works =
      cores >= kBusyCores || evidence.history.Reports(evidence.samples.attempt(), number) ||
      static_cast<double>(rank.busy) > kWorkedBefore * static_cast<double>(rank.samples);
  if (slots == 1) return works ? 1 : 0;
  // Counts only if at most half of the slots are used: a program may well have a few threads fewer
  // than slots.
  const int64_t used = std::clamp<int64_t>(busy, works ? 1 : 0, slots);
  return used * 2 <= slots ? used : slots;
}

bool IsBusy(const DeviceSamples& device, int64_t window_ms, bool& is_known) {
  const auto samples = Deciding(device.newest, window_ms);
  is_known = !samples.empty() && samples.back()->has_utilization();
  if (!is_known) return true;
  if (static_cast<double>(device.busy) > kWorkedBefore * static_cast<double>(device.samples)) {
    return true;
  }
  return std::any_of(samples.begin(), samples.end(), [](const v1::DeviceSample* sample) {
    return sample->utilization() >= kBusyUtilization;
  });
}

void CountRank(const Evidence& evidence, const v1::NodePart& part, uint32_t number,
               int64_t window_ms, IdleCount& count) {
  const std::vector<std::string> devices = DevicesOfRank(part, number);
  const auto found = evidence.samples.ranks().find(number);
  if (found == evidence.samples.ranks().end() || devices.empty()) {
    count.is_known = false;
    return;
  }
  const auto samples = Deciding(found->second.newest, window_ms);
  if (samples.empty()) {
    count.is_known = false;
    return;
  }
  const double cores = HighCores(samples);
  const auto asked = static_cast<int64_t>(devices.size());
  int64_t busy = 0;
  if (common::IsHostKind(part.device_kind())) {
    busy = BusySlots(evidence, number, found->second, asked, cores);
  } else {
    for (const std::string& device : devices) {
      const auto measured = evidence.samples.devices().find({part.node(), device});
      bool is_known = measured != evidence.samples.devices().end();
      if (!is_known || IsBusy(measured->second, window_ms, is_known)) ++busy;
      count.is_known &= is_known;
    }
    count.computes_on_cpu |= busy == 0 && cores >= 1 - kCoreSlack;
  }
  count.asked += asked;
  count.busy += busy;
  if (busy == 0) count.idle_ranks.push_back(number);
  if (busy > 0 && busy < asked) {
    count.partial_ranks.push_back(number);
    count.most_cores = std::max(count.most_cores, cores);
    count.most_processes = std::max(count.most_processes, samples.back()->processes());
  }
}

std::string LauncherFix(const Evidence& evidence, const IdleCount& count) {
  const v1::JobSpec& spec = evidence.job.spec();
  const std::string kind = evidence.job.resolved_device_kind();
  const std::string start =
      absl::StrCat("jobctl run -n ", count.asked,
                   kind.empty() ? "" : absl::StrCat(" --devices ", kind, ":", count.asked), " -- ");
  const std::string program = spec.command().empty() ? "" : spec.command(0);
  const std::string_view name(program.begin() + static_cast<std::ptrdiff_t>(program.rfind('/') + 1),
                              program.end());
  if (name == "sh" || name == "bash" || name == "accelerate" || name == "torchrun") {
    return absl::StrCat(start,
                        "python train.py (the program itself: Muster starts one per device)");
  }
  return absl::StrCat(start, CommandLine(spec));
}

Saying SayIdle(const Evidence& evidence, const IdleCount& count) {
  Saying saying;
  saying.sentence = absl::StrCat(count.busy, " of ", count.asked, " devices ",
                                 count.busy == 1 ? "is" : "are", " busy");
  const v1::Attempt& attempt = *evidence.Running();
  if (count.computes_on_cpu) {
    saying.cause =
        "the ranks compute on the CPU: the framework does not use the device it was given";
    saying.fix = absl::StrCat("jobctl logs ", evidence.job.name(), " --grep 'CUDA|driver|device'");
  } else if (!count.partial_ranks.empty()) {
    saying.cause = absl::StrCat(
        RankOnNode(attempt, count.partial_ranks.front()), " holds several devices, but ",
        count.most_processes == 1 ? "is one process" : "only one of its processes computes",
        ": the launcher was forgotten, or started one process");
    saying.fix = LauncherFix(evidence, count);
  } else {
    saying.cause = absl::StrCat(RankOnNode(attempt, count.idle_ranks.front()),
                                count.idle_ranks.size() > 1
                                    ? absl::StrCat(" and ", count.idle_ranks.size() - 1, " more")
                                    : "",
                                " has not used its device since it started");
    saying.fix = absl::StrCat("jobctl stack ", evidence.job.name());
  }
  return saying;
}

}  // namespace

// N devices requested, M busy: the forgotten launcher. A slot of kind cpu is busy if the process
// tree of its rank uses a core; another device if its utilization is above 2 %.
// Silent: for two thirds of the floor after the start, and until half a floor of samples is there;
// until a trainer that reports steps has done five; about a rank that reports metrics, or that was
// busy for a tenth of its time (it waits for others: an evaluation on rank 0, the end); about a
// rank that uses more than half of its slots; where a device or rank was not measured; when nothing
// at all is busy, for ten floors, unless the ranks report steps while they compute on the CPU.
std::optional<v1::Finding> IdleDevices(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  const AttemptHistory* steps = evidence.Newest();
  if (attempt == nullptr || evidence.samples.attempt() != attempt->number()) return std::nullopt;
  if (static_cast<double>(evidence.RanMs()) <
      kWarmUpShare * static_cast<double>(evidence.floor_ms)) {
    return std::nullopt;
  }
  if (steps != nullptr && !steps->marks().empty() &&
      steps->last_step() - std::max<int64_t>(0, steps->first_step() - 1) < kStepsBefore) {
    return std::nullopt;
  }
  IdleCount count;
  const int64_t window_ms = evidence.floor_ms / kDecidingShare;
  for (const v1::NodePart& part : attempt->parts()) {
    for (uint32_t i = 0; i < part.local_world_size() && count.is_known; ++i) {
      CountRank(evidence, part, part.first_rank() + i, window_ms, count);
    }
  }
  if (!count.is_known || count.busy >= count.asked) return std::nullopt;
  const bool trains_on_cpu = count.computes_on_cpu && steps != nullptr && !steps->marks().empty();
  if (count.busy == 0 && !trains_on_cpu && evidence.RanMs() < kAllIdleFloors * evidence.floor_ms) {
    return std::nullopt;
  }
  v1::Finding finding = MakeFinding(v1::FINDING_SEVERITY_WARNING, SayIdle(evidence, count));
  AddNumber(finding, "devices asked", static_cast<double>(count.asked));
  AddNumber(finding, "devices busy", static_cast<double>(count.busy));
  AddNumber(finding, "world size", attempt->world_size());
  if (!count.partial_ranks.empty()) {
    AddNumber(finding, "processor use", count.most_cores, "cores");
    AddNumber(finding, "processes", count.most_processes);
  }
  AddNumber(finding, "measured for", static_cast<double>(window_ms) / 1e3, "s");
  for (const auto& ranks : {count.idle_ranks, count.partial_ranks}) {
    for (const uint32_t rank : ranks) finding.add_ranks(rank);
  }
  SetWaste(finding, static_cast<double>(count.asked - count.busy) *
                        static_cast<double>(evidence.RanMs()) / 1e3);
  return finding;
}

// All ranks of a node on one device, although each was given its own: LOCAL_RANK is not used.
// Silent: until half a floor after the start; for kind cpu; where fewer than two ranks of the node
// have a device open; when they hold more than one between them.
std::optional<v1::Finding> SharedDevice(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  if (attempt == nullptr || evidence.samples.attempt() != attempt->number()) return std::nullopt;
  if (evidence.RanMs() < evidence.floor_ms / kDecidingShare) return std::nullopt;
  for (const v1::NodePart& part : attempt->parts()) {
    std::set<std::string> open;
    std::vector<uint32_t> holders;
    for (uint32_t i = 0; i < part.local_world_size(); ++i) {
      const auto rank = evidence.samples.ranks().find(part.first_rank() + i);
      if (rank == evidence.samples.ranks().end() || rank->second.newest.empty()) continue;
      const v1::RankSample& sample = rank->second.newest.back().second;
      if (sample.open_devices().empty()) continue;
      holders.push_back(rank->first);
      open.insert(sample.open_devices().begin(), sample.open_devices().end());
    }
    if (holders.size() < 2 || open.size() != 1 || part.device_indexes_size() < 2) continue;
    if (common::IsHostKind(part.device_kind())) continue;
    const auto idle = static_cast<uint64_t>(part.device_indexes_size() - 1);
    v1::Finding finding = MakeFinding(
        v1::FINDING_SEVERITY_WARNING,
        {absl::StrCat("all ", holders.size(), " ranks on ", part.node(), " use ", *open.begin(),
                      "; ", common::Counted(idle, "device"), idle == 1 ? " is" : " are", " idle"),
         "the program does not choose its device by LOCAL_RANK",
         absl::StrCat("torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before the model is "
                      "made, or submit with --virtual-local-rank")});
    AddNumber(finding, "devices asked", part.device_indexes_size());
    AddNumber(finding, "devices open", 1);
    AddNumber(finding, "ranks", static_cast<double>(holders.size()));
    for (const uint32_t rank : holders) finding.add_ranks(rank);
    finding.set_node(part.node());
    finding.set_device(*open.begin());
    SetWaste(finding, static_cast<double>(part.device_indexes_size() - 1) *
                          static_cast<double>(evidence.RanMs()) / 1e3);
    return finding;
  }
  return std::nullopt;
}

}  // namespace muster::coordinator
