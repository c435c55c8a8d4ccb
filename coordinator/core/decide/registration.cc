#include "coordinator/core/decide/registration.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/core/outcome/settle.h"
#include "coordinator/core/state/timers.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kProvisionalSince = 2;  // protocol

std::string CountKinds(const v1::NodeFacts& facts) {
  std::map<std::string, int> kinds;
  for (const v1::Device& device : facts.devices()) ++kinds[device.kind()];
  std::vector<std::string> texts;
  for (const auto& [kind, count] : kinds) texts.push_back(absl::StrCat(kind, " ", count));
  return texts.empty() ? "none" : absl::StrJoin(texts, ", ");
}

// What identifies a device. Not its memory: drivers report it slightly differently from time to
// time.
using DeviceName = std::tuple<std::string, uint32_t, std::string, std::string>;
std::vector<DeviceName> NameDevices(const v1::NodeFacts& facts) {
  std::vector<DeviceName> names;
  for (const v1::Device& device : facts.devices()) {
    names.emplace_back(device.kind(), device.index(), device.model(), device.uuid());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A model that is not known says nothing: an older worker reported none, and a vendor's tool may not answer.
bool IsSameDevice(const DeviceName& one, const DeviceName& other) {
  const auto& [kind, index, model, uuid] = one;
  const auto& [other_kind, other_index, other_model, other_uuid] = other;
  return kind == other_kind && index == other_index && uuid == other_uuid &&
         (model == other_model || model.empty() || other_model.empty());
}

std::string DescribeDevice(const DeviceName& device) {
  const auto& [kind, index, model, uuid] = device;
  return absl::StrCat(kind, " ", index, model.empty() ? "" : absl::StrCat(" ", model),
                      uuid.empty() ? "" : absl::StrCat(" ", uuid));
}

}  // namespace

absl::Status JudgeMachine(const ClusterState& state, const Node& known, const v1::NodeFacts& facts,
                          Now now) {
  const v1::NodeFacts& before = known.record.facts();
  const bool other_machine = !before.machine_id().empty() && !facts.machine_id().empty() &&
                             before.machine_id() != facts.machine_id() &&
                             before.boot_id() != facts.boot_id();
  if (!other_machine) return absl::OkStatus();
  absl::Status verdict;
  ForEachLivePart(state, facts.name(), [&](const auto& job, const auto&, const auto& part) {
    const std::optional<int64_t> fenced = FencedAtMonoMs(state, job, part);
    verdict.Update(common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1411",
         .what = absl::StrCat(
             "node ", facts.name(), " was on a different machine (", before.hostname(), ", ",
             before.advertise(), "), where ranks of ", job.name(),
             " may still be running; this worker is on ", common::Printable(facts.hostname()),
             " and cannot tell; ",
             fenced.has_value()
                 ? absl::StrCat("they count as stopped in ",
                                common::HumanDuration(std::max<int64_t>(*fenced - now.mono_ms, 0)))
                 : "the job waits for that machine (on_node_loss: wait)"),
         .fix =
             absl::StrCat("wait, or jobctl nodes declare-dead ", facts.name(),
                          " if that machine is off, or start this worker with another --name")}));
  });
  return verdict;
}

bool NeedsClearing(const Node* known, const v1::Register& message) {
  const v1::NodeFacts& facts = message.facts();
  if (facts.protocol() < kProvisionalSince) return false;
  if (!message.cleared() || known == nullptr) return true;
  return known->cleared_by == 0 || known->cleared_by != facts.process() ||
         known->record.facts().incarnation() != facts.incarnation();
}

std::string DescribeDeviceChange(const v1::NodeFacts& before, const v1::NodeFacts& now) {
  if (before.incarnation() != now.incarnation()) return "";
  if (now.oversubscribe_cpu() || before.oversubscribe_cpu()) return "";
  const std::vector<DeviceName> old_names = NameDevices(before);
  const std::vector<DeviceName> new_names = NameDevices(now);
  if (std::equal(old_names.begin(), old_names.end(), new_names.begin(), new_names.end(),
                 IsSameDevice)) {
    return "";
  }
  const std::string was = CountKinds(before), is = CountKinds(now);
  if (was != is) return absl::StrCat("its devices changed: ", was, " → ", is);
  const auto other =
      std::mismatch(old_names.begin(), old_names.end(), new_names.begin(), IsSameDevice);
  return absl::StrCat("its devices changed: ", DescribeDevice(*other.first), " → ",
                      DescribeDevice(*other.second));
}

}  // namespace muster::coordinator
