#include "coordinator/core/state/checkpoint_files.h"

#include <utility>

#include "coordinator/core/state/holdings.h"

namespace muster::coordinator {

void DetachFiles(ClusterState& state, v1::JobRecord& job) {
  ForEachSaved(job, [&](v1::Checkpoint& checkpoint) {
    checkpoint.set_file_count(static_cast<uint32_t>(checkpoint.files_size()));
    if (checkpoint.files().empty()) return;
    CheckpointFileList& files =
        state.checkpoint_files[{job.id(), checkpoint.attempt(), checkpoint.step()}];
    files.Clear();
    files.Swap(checkpoint.mutable_files());
    for (const v1::CheckpointFile& file : files) WeighFile(state, job, file);
  });
}

void AttachFiles(ClusterState& state, v1::JobRecord& job) {
  ForEachSaved(job, [&](v1::Checkpoint& checkpoint) {
    auto files =
        state.checkpoint_files.extract({job.id(), checkpoint.attempt(), checkpoint.step()});
    if (!files.empty()) checkpoint.mutable_files()->Swap(&files.mapped());
  });
}

v1::JobRecord WithFiles(const ClusterState& state, const v1::JobRecord& job) {
  v1::JobRecord whole = job;
  ForEachSaved(whole, [&](v1::Checkpoint& checkpoint) {
    *checkpoint.mutable_files() = FilesOf(state, job.id(), checkpoint.attempt(), checkpoint.step());
  });
  return whole;
}

const CheckpointFileList& FilesOf(const ClusterState& state, uint64_t job, uint32_t attempt,
                                  int64_t step) {
  static const CheckpointFileList kNone;
  const auto found = state.checkpoint_files.find({job, attempt, step});
  return found == state.checkpoint_files.end() ? kNone : found->second;
}

}  // namespace muster::coordinator
