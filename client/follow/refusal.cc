#include "client/follow/refusal.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "common/device_kinds.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {

using common::StrCat;

namespace {

// "gpu (NVIDIA H100)" for each kind and model that the nodes have.
std::set<std::string> DevicesThere(const v1::ListNodesResponse& nodes) {
  std::set<std::string> devices;
  for (const v1::NodeView& node : nodes.nodes()) {
    for (const v1::Device& device : node.record().facts().devices()) {
      devices.insert(device.model().empty()
                         ? device.kind()
                         : StrCat(device.kind(), " (", common::Printable(device.model()), ")"));
    }
  }
  return devices;
}

bool HasModel(const std::set<std::string>& devices, std::string_view model) {
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& device) {
    return absl::AsciiStrToLower(device).find(absl::AsciiStrToLower(common::ToAbsl(model))) !=
           std::string::npos;
  });
}

// A word that names no kind is the model of an accelerator: "h100", or "gpuu".
absl::Status UnknownModel(const absl::Status& refused, const std::string& model,
                          const std::set<std::string>& devices) {
  std::vector<std::string_view> kinds;
  for (const common::DeviceKind& kind : common::DeviceKinds()) kinds.push_back(kind.name);
  const std::string_view nearest = common::Nearest(model, kinds);
  return common::MakeProblem(
      refused.code(),
      {.code = "JC1402",
       .what = StrCat("\"", common::Printable(model),
                      "\" is not a kind of device, and no node has a model of "
                      "this name; this cluster has ",
                      absl::StrJoin(devices, ", "), common::DidYouMean(nearest)),
       .fix = StrCat("--devices ", nearest.empty() ? common::HostKind().name : nearest,
                     ", or --queue-anyway to wait for a node that has it")});
}

}  // namespace

absl::Status ExplainMissingKind(const absl::Status& refused, const v1::JobSpec& spec,
                                const v1::ListNodesResponse& nodes) {
  const std::string& asked = spec.shape().device().kind();
  std::set<std::string> kinds;
  for (const v1::NodeView& node : nodes.nodes()) {
    for (const v1::DeviceUse& use : node.uses()) {
      if (use.total() > 0) kinds.insert(use.kind());
    }
  }
  const std::string& model = spec.shape().device().model();
  const std::set<std::string> devices = DevicesThere(nodes);
  if (!model.empty() && !devices.empty() && !HasModel(devices, model))
    return UnknownModel(refused, model, devices);
  if (asked.empty() || kinds.empty() || kinds.contains(asked)) return refused;
  return common::MakeProblem(
      refused.code(), {.code = "JC1402",
                       .what = StrCat("the job asks for ", asked, ", and this cluster has ",
                                      absl::StrJoin(kinds, " and "), " only"),
                       .fix = StrCat("--devices ", *kinds.begin(),
                                     ", or --queue-anyway to wait for a node with ", asked)});
}

absl::Status ExplainRefusal(const absl::Status& refused, const v1::JobSpec& spec,
                            Connection& connection) {
  if (common::CodeOf(refused) != "JC1402") return refused;
  const auto nodes = connection.ListNodes();
  return nodes.ok() ? ExplainMissingKind(refused, spec, *nodes) : refused;
}

}  // namespace muster::client
