#include "coordinator/local/segment_check.h"

#include "common/status.h"
#include "coordinator/file_tree.h"

namespace muster::coordinator {
namespace {

absl::Status Count(const Paths& paths, const std::string& folder, uint64_t* files,
                   uint64_t* bytes) {
  return WalkFiles(paths.Root(), folder,
                   {.file =
                        [&](const TreeFile& file) {
                          ++*files;
                          *bytes += file.size;
                          return absl::OkStatus();
                        },
                    .odd = [](const std::string&) { return absl::OkStatus(); }});
}

}  // namespace

absl::Status CheckSegments(const Paths& paths, const SegmentFound&, SegmentTotals* totals) {
  RETURN_IF_ERROR(Count(paths, "logs", &totals->log_files, &totals->log_bytes));
  return Count(paths, "metrics", &totals->metric_files, &totals->metric_bytes);
}

absl::Status RepairSegments(const Paths& paths, const SegmentFound& changed,
                            SegmentTotals* totals) {
  return CheckSegments(paths, changed, totals);
}

}  // namespace muster::coordinator
