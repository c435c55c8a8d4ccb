#include "coordinator/packs/packs.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "coordinator/segments/writer.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

absl::StatusOr<StreamEnd> EndFiles(SegmentFiles files, const SegmentId& id) {
  ASSIGN_OR_RETURN(SegmentWriter last, SegmentWriter::Open(std::move(files), id));
  RETURN_IF_ERROR(last.FinishSegment());
  return StreamEnd{last.End().end_offset, last.End().end_count, last.End().ended};
}

std::vector<uint64_t> JobsOf(const PackNames& names, PackKind kind, const std::string& root) {
  std::vector<uint64_t> jobs = JobsBelow(root);
  const absl::StatusOr<std::vector<uint64_t>> packed = names.Jobs(kind);
  if (packed.ok()) jobs.insert(jobs.end(), packed->begin(), packed->end());
  return jobs;
}

PackTerm NewPackTerm(uint64_t epoch) {
  return {.epoch = epoch,
          .life = absl::StrFormat("%08x", static_cast<uint32_t>(common::Random64()))};
}

}  // namespace muster::coordinator
