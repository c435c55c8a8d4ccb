#include "client/text/version_text.h"

#include <map>
#include <utility>

#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr size_t kLinesMax = 4;
constexpr size_t kNodesNamed = 8;

std::string OneSet(const v1::Versions& versions) {
  std::string text = versions.framework();
  if (versions.toolkit() == "cpu") {
    text += " (without CUDA)";
  } else if (!versions.toolkit().empty()) {
    StrAppend(&text, " (CUDA ", versions.toolkit(), ")");
  }
  if (!versions.driver().empty()) StrAppend(&text, ", driver ", versions.driver());
  if (!versions.driver_cuda().empty())
    StrAppend(&text, " (CUDA up to ", versions.driver_cuda(), ")");
  return common::Printable(text);
}

std::string NodesNamed(const std::vector<std::string>& nodes) {
  std::string names;
  for (size_t i = 0; i < nodes.size() && i < kNodesNamed; ++i)
    StrAppend(&names, i == 0 ? "" : ", ", common::Printable(nodes[i]));
  if (nodes.size() > kNodesNamed) StrAppend(&names, " and ", nodes.size() - kNodesNamed, " more");
  return names;
}

}  // namespace

std::vector<std::string> VersionLines(const v1::Attempt& attempt) {
  // Ordered by the first node of each set.
  std::vector<std::pair<std::string, std::vector<std::string>>> sets;
  std::map<std::string, size_t> known;
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.has_versions()) continue;
    const std::string text = OneSet(part.versions());
    const auto [set, is_new] = known.try_emplace(text, sets.size());
    if (is_new) sets.emplace_back(text, std::vector<std::string>());
    sets[set->second].second.push_back(part.node());
  }
  std::vector<std::string> lines;
  for (const auto& [text, nodes] : sets) {
    if (lines.size() == kLinesMax) {
      lines.push_back(StrCat("and ", sets.size() - kLinesMax, " other sets of versions"));
      break;
    }
    lines.push_back(StrCat(text, ": ", NodesNamed(nodes)));
  }
  return lines;
}

}  // namespace muster::client
