#include "coordinator/core/limit_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNodesExplained = 3;

NodeWithoutLimits Explain(const v1::NodeFacts& facts, const std::string& what,
                          const v1::RankLimits& limits) {
  if (!facts.has_limits()) {
    return {facts.name(), what, "its worker is of an older version, which cannot limit ranks",
            "install the coordinator's release of muster-worker there"};
  }
  const bool by_memory = limits.memory_bytes() > 0 && facts.limits().has_no_memory();
  const v1::LimitGap& gap = by_memory ? facts.limits().no_memory() : facts.limits().no_cpus();
  return {facts.name(), what, gap.why(), gap.fix()};
}

}  // namespace

bool CanLimit(const v1::NodeFacts& facts, const v1::RankLimits& limits) {
  return CannotLimit(facts, limits).empty();
}

std::string CannotLimit(const v1::NodeFacts& facts, const v1::RankLimits& limits) {
  const bool unknown = !facts.has_limits();
  const bool no_cpus = limits.cpu_millis() > 0 && (unknown || facts.limits().has_no_cpus());
  const bool no_memory = limits.memory_bytes() > 0 && (unknown || facts.limits().has_no_memory());
  if (no_cpus && no_memory) return "cpus and memory";
  return no_cpus ? "cpus" : no_memory ? "memory" : "";
}

std::vector<NodeWithoutLimits> NodesWithoutLimits(const ClusterState& state,
                                                  const v1::RankLimits& limits) {
  std::vector<NodeWithoutLimits> nodes;
  for (const auto& [name, node] : state.nodes) {
    const v1::NodeFacts& facts = node.record.facts();
    const std::string what = CannotLimit(facts, limits);
    if (!what.empty()) nodes.push_back(Explain(facts, what, limits));
  }
  return nodes;
}

std::string DescribeNodesWithoutLimits(const std::vector<NodeWithoutLimits>& nodes) {
  std::vector<std::string> texts;
  for (const NodeWithoutLimits& each : nodes) {
    if (texts.size() == kNodesExplained) {
      texts.push_back(absl::StrCat(nodes.size() - kNodesExplained, " more"));
      break;
    }
    texts.push_back(absl::StrCat(each.node, " cannot limit ", each.what, ": ", each.why));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace muster::coordinator
