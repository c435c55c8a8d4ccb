#include "client/session/job_parts.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/str_join.h"
#include "client/command_line/errors.h"
#include "client/text/record_text.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

absl::Status NotThere(const v1::JobRecord& record, std::string_view what) {
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1211", .what = std::string(what), .fix = StrCat("jobctl show ", record.name())});
}

// The maximum of any attempt so far or to come.
uint64_t RanksOf(const v1::JobRecord& record) {
  const v1::Shape& shape = record.spec().shape();
  uint64_t ranks = shape.per_node() > 0
                       ? uint64_t{shape.per_node()} * std::max(1u, shape.max_nodes())
                       : shape.processes();
  for (const v1::Attempt& attempt : record.attempts())
    ranks = std::max<uint64_t>(ranks, attempt.world_size());
  return ranks;
}

}  // namespace

absl::Status CheckAttempt(const v1::JobRecord& record, int64_t attempt) {
  const int64_t next = record.next_attempt();
  if (attempt < next) return absl::OkStatus();
  return NotThere(record, StrCat(record.name(), " has no attempt ", attempt,
                                 next == 0   ? "; none has started yet"
                                 : next == 1 ? ", only attempt 0"
                                             : StrCat(", only attempts 0 to ", next - 1)));
}

absl::Status CheckRank(const v1::JobRecord& record, int64_t rank) {
  const int64_t ranks = static_cast<int64_t>(RanksOf(record));
  // Do not refuse if the record does not have the number.
  if (rank < ranks || ranks == 0) return absl::OkStatus();
  return NotThere(record,
                  StrCat(record.name(), " has no rank ", rank,
                         ranks == 1 ? ", only rank 0" : StrCat(", only ranks 0 to ", ranks - 1)));
}

bool IsRegistered(const std::string& node, const v1::ListNodesResponse& nodes) {
  return std::any_of(nodes.nodes().begin(), nodes.nodes().end(), [&](const v1::NodeView& view) {
    return view.record().facts().name() == node;
  });
}

absl::Status NoSuchNode(const std::string& node, const v1::ListNodesResponse& nodes) {
  std::vector<std::string_view> names;
  for (const v1::NodeView& view : nodes.nodes()) names.push_back(view.record().facts().name());
  return common::MakeProblem(absl::StatusCode::kNotFound,
                             {.code = "JC1401",
                              .what = StrCat("there is no node \"", common::Printable(node), "\"",
                                             common::DidYouMean(common::Nearest(node, names))),
                              .fix = "jobctl nodes ls"});
}

absl::Status CheckNode(const v1::JobRecord& record, const std::string& node,
                       const v1::ListNodesResponse& nodes) {
  std::set<std::string> its;
  bool all_known = IsOver(record.state()) && record.dropped_attempts() == 0;
  for (const v1::Attempt& attempt : record.attempts()) {
    for (const v1::NodePart& part : attempt.parts()) its.insert(part.node());
    all_known = all_known && attempt.parts_left_out() == 0;
  }
  if (its.contains(node)) return absl::OkStatus();
  if (!IsRegistered(node, nodes)) return NoSuchNode(node, nodes);
  // It may have run there in an attempt that the record has dropped, or may run there later.
  if (!all_known) return absl::OkStatus();
  constexpr size_t kNamedMax = 5;
  std::vector<std::string> named(its.begin(), its.end());
  const size_t more = named.size() - std::min(named.size(), kNamedMax);
  named.resize(named.size() - more);
  return NotThere(record, StrCat("no rank of ", record.name(), " ran on ", node,
                                 named.empty() ? "" : ", only on ", absl::StrJoin(named, ", "),
                                 more == 0 ? "" : StrCat(" and ", more, " more")));
}

size_t RanksShown(const v1::JobRecord& record, const v1::StreamLogsRequest& request) {
  const std::set<uint32_t> wanted(request.ranks().begin(), request.ranks().end());
  const std::set<std::string> nodes(request.nodes().begin(), request.nodes().end());
  size_t ranks = 0;
  for (const v1::Attempt& attempt : record.attempts()) {
    if (request.attempt() >= 0 && attempt.number() != static_cast<uint32_t>(request.attempt())) {
      continue;
    }
    ranks = 0;
    for (const v1::NodePart& part : attempt.parts()) {
      if (!nodes.empty() && !nodes.contains(part.node())) continue;
      for (uint32_t local = 0; local < part.local_world_size(); ++local) {
        ranks += wanted.empty() || wanted.contains(part.first_rank() + local) ? 1 : 0;
      }
    }
  }
  return ranks;
}

}  // namespace muster::client
