#include "client/refusal.h"

#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "client/connection.h"
#include "client/errors.h"
#include "common/problem.h"
#include "common/strings.h"

namespace muster::client {

using common::StrCat;

absl::Status ExplainMissingKind(const absl::Status& refused, const v1::JobSpec& spec,
                                const v1::ListNodesResponse& nodes) {
  const std::string& asked = spec.shape().device().kind();
  std::set<std::string> kinds;
  for (const v1::NodeView& node : nodes.nodes()) {
    for (const v1::DeviceUse& use : node.uses()) {
      if (use.total() > 0) kinds.insert(use.kind());
    }
  }
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
