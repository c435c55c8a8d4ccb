#include "coordinator/core/preparation_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNodesNamedThatCannot = 3;
constexpr size_t kDoingBytesMax = 200;
constexpr size_t kSetupOutputBytesMax = 8 * 1024;
constexpr size_t kImageBytesMax = 200;
// Records of jobs with thousands of parts and many attempts stay small.
constexpr int kSetupOutputsKept = 4;

bool IsTooOld(const v1::NodeFacts& facts) { return facts.protocol() < kProtocolPrepares; }

NodeThatCannotPrepare ExplainCannot(const v1::NodeFacts& facts, const std::string& what) {
  if (IsTooOld(facts)) {
    return {facts.name(), what, "its worker is of an older version, which prepares nothing",
            "install the coordinator's release of muster-worker there"};
  }
  const v1::ContainerFacts& containers = facts.containers();
  return {
      facts.name(), what,
      containers.lacks().empty() ? "its worker found no container runtime" : containers.lacks(0),
      "install runc or crun there and restart its worker"};
}

}  // namespace

bool NeedsPreparation(const v1::JobSpec& spec) {
  return spec.has_code() || !spec.setup().empty() || !spec.container().image().empty();
}

Demand DemandOf(const v1::JobSpec& spec) {
  return {.shape = spec.shape(),
          .prepares = NeedsPreparation(spec),
          .container = !spec.container().image().empty()};
}

void CopyDemand(const v1::JobSpec& from, v1::JobSpec* to) {
  *to->mutable_shape() = from.shape();
  if (from.has_code()) to->mutable_code();
  if (!from.setup().empty()) to->add_setup(from.setup(0));
  if (!from.container().image().empty()) {
    to->mutable_container()->set_image(from.container().image());
  }
}

std::string Demand::Key() const {
  return absl::StrCat(shape.SerializeAsString(), "\n", prepares, container);
}

std::string CannotPrepare(const v1::NodeFacts& facts, const Demand& demand) {
  if (demand.container && (IsTooOld(facts) || facts.containers().runtime().empty())) {
    return "run containers";
  }
  return demand.prepares && IsTooOld(facts) ? "prepare code" : "";
}

std::vector<NodeThatCannotPrepare> NodesThatCannotPrepare(const ClusterState& state,
                                                          const Demand& demand) {
  std::vector<NodeThatCannotPrepare> nodes;
  for (const auto& [name, node] : state.nodes) {
    const v1::NodeFacts& facts = node.record.facts();
    const std::string what = CannotPrepare(facts, demand);
    if (!what.empty()) nodes.push_back(ExplainCannot(facts, what));
  }
  return nodes;
}

std::string DescribeNodesThatCannotPrepare(const std::vector<NodeThatCannotPrepare>& nodes) {
  std::vector<std::string> texts;
  for (const NodeThatCannotPrepare& each : nodes) {
    if (texts.size() == kNodesNamedThatCannot) {
      texts.push_back(absl::StrCat(nodes.size() - kNodesNamedThatCannot, " more"));
      break;
    }
    texts.push_back(absl::StrCat(each.node, " cannot ", each.what, ": ", each.why));
  }
  return absl::StrJoin(texts, "; ");
}

std::string BoundDoing(const v1::Preparation& said) {
  return common::Printable(said.doing().substr(0, kDoingBytesMax));
}

v1::Preparation BoundPreparation(const v1::Attempt& attempt, const v1::Preparation& said) {
  v1::Preparation bound;
  bound.set_fetched_bytes(said.fetched_bytes());
  bound.set_ran_setup(said.ran_setup());
  bound.set_setup_failed(said.setup_failed());
  bound.set_setup_ms(std::max<int64_t>(said.setup_ms(), 0));
  bound.set_image(common::Printable(said.image().substr(0, kImageBytesMax)));
  const auto kept = std::count_if(
      attempt.parts().begin(), attempt.parts().end(),
      [](const v1::NodePart& part) { return !part.preparation().setup_output().empty(); });
  if (kept < kSetupOutputsKept) {
    const std::string& output = said.setup_output();
    bound.set_setup_output(common::Printable(
        output.substr(output.size() - std::min(output.size(), kSetupOutputBytesMax)),
        /*keep_layout=*/true));
  }
  return bound;
}

std::string DescribePreparing(const v1::Attempt& attempt) {
  const v1::NodePart* first = nullptr;
  int more = 0;
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended() || part.preparation().doing().empty()) continue;
    if (first == nullptr) {
      first = &part;
    } else {
      ++more;
    }
  }
  if (first == nullptr) return "";
  std::string text = absl::StrCat(first->node(), ": ", first->preparation().doing());
  if (more == 1) absl::StrAppend(&text, " (1 more node is preparing)");
  if (more > 1) absl::StrAppend(&text, " (", more, " more nodes are preparing)");
  return text;
}

}  // namespace muster::coordinator
