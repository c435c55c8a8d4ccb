#include "common/job/shape.h"

#include <algorithm>

#include "common/job/refuse.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::job {
namespace {

using common::Counted;
using common::StrAppend;
using common::StrCat;

uint32_t DevicesPerRank(const v1::DeviceConstraint& device) {
  return std::max(1u, device.count_per_rank());
}

// "2 nodes", "1 to 4 nodes". If the shape names none: one.
std::string Nodes(const v1::Shape& shape) {
  if (shape.max_nodes() > shape.min_nodes()) {
    return StrCat(std::max(1u, shape.min_nodes()), " to ", shape.max_nodes(), " nodes");
  }
  return Counted(std::max(1u, shape.min_nodes()), "node");
}

}  // namespace

absl::Status Complete(uint32_t total, v1::Shape* shape) {
  if (shape->per_node() > 0 && shape->min_nodes() == 0) {
    shape->set_min_nodes(1);
    shape->set_max_nodes(1);
  }
  if (total == 0) {
    if (shape->processes() == 0 && shape->per_node() == 0) {
      shape->set_processes(std::max<uint32_t>(1, shape->min_nodes()));
    }
    return absl::OkStatus();
  }
  uint64_t ranks = shape->processes();
  if (shape->per_node() > 0) {
    if (shape->min_nodes() != shape->max_nodes()) {
      return Refuse("JC1104", "a total number of devices cannot be combined with a range of nodes",
                    "omit the number after `:`");
    }
    ranks = uint64_t{shape->per_node()} * shape->min_nodes();
  }
  if (ranks == 0) {
    shape->set_processes(total);
    return absl::OkStatus();
  }
  if (total % ranks != 0) {
    return Refuse("JC1104",
                  StrCat(Counted(total, "device"), " cannot be divided evenly among ",
                         Counted(ranks, "rank")),
                  StrCat("ask for ", ranks * std::max<uint64_t>(1, total / ranks), " devices"));
  }
  shape->mutable_device()->set_count_per_rank(static_cast<uint32_t>(total / ranks));
  return absl::OkStatus();
}

std::string DescribeRanks(const v1::Shape& shape) {
  if (shape.per_node() > 0) return StrCat(Nodes(shape), " × ", Counted(shape.per_node(), "rank"));
  if (shape.min_nodes() == 0) return Counted(shape.processes(), "rank");
  return StrCat(Counted(shape.processes(), "rank"), " on ", Nodes(shape));
}

std::string DescribeLimits(const v1::RankLimits& limits) {
  const std::string cpus = limits.cpu_millis() == 0
                               ? ""
                               : StrCat(common::Thousandths(limits.cpu_millis()),
                                        limits.cpu_millis() == 1'000 ? " cpu" : " cpus");
  const std::string memory = limits.memory_bytes() == 0
                                 ? ""
                                 : StrCat(common::ExactBytes(limits.memory_bytes()), " of memory");
  if (cpus.empty() && memory.empty()) return "";
  return StrCat("at most ", cpus, cpus.empty() || memory.empty() ? "" : " and ", memory,
                " per rank");
}

std::string DescribeShape(const v1::Shape& shape) {
  const v1::DeviceConstraint& device = shape.device();
  std::string text = DescribeRanks(shape);
  if (!device.kind().empty()) {
    StrAppend(&text, ", ", DevicesPerRank(device), " ", device.kind(),
              device.model().empty() ? "" : StrCat(" (", device.model(), ")"), " each");
  }
  const std::string limits = DescribeLimits(shape.limits());
  return limits.empty() ? text : StrCat(text, ", ", limits);
}

std::string DescribeDemand(const v1::Shape& shape, std::string_view kind) {
  const uint32_t each = DevicesPerRank(shape.device());
  const bool one_node = std::max(shape.min_nodes(), shape.max_nodes()) <= 1;
  std::string text;
  if (shape.per_node() > 0) {
    text =
        StrCat(Nodes(shape), " with ", shape.per_node() * each, " ", kind, one_node ? "" : " each");
  } else {
    text = StrCat(shape.processes() * each, " ", kind);
    if (shape.min_nodes() > 0) StrAppend(&text, " on ", Nodes(shape));
  }
  if (!shape.device().model().empty()) StrAppend(&text, " of model ", shape.device().model());
  return text;
}

std::string DescribeWorld(uint64_t ranks, uint64_t nodes) {
  return StrCat(Counted(ranks, "rank"), " on ", Counted(nodes, "node"));
}

}  // namespace muster::job
