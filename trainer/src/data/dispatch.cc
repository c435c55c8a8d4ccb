// Distributes batches with Collectives::scatter; see dispatch.h.
#include "data/dispatch.h"

#include <cstring>

#include "collectives/collectives.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Sent with the tensors, before the batch's structure. Equal for all full steps except the last, so
// scatter sends it once.
struct Note {
  int64_t taken = 0;
  int64_t next_taken = 0;
};

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

ReadyStep part_of(const loader_detail::BatchSource& source, ScatterShare share, int64_t begin) {
  Note note;
  if (share.note.size() < sizeof(note)) {
    throw CommunicationError(
        "the batch from rank 0 has no note: do all ranks run the same program?");
  }
  std::memcpy(&note, share.note.data(), sizeof(note));
  ReadyStep step{.info = {begin, note.taken, note.next_taken}};
  if (share.begin < share.end) {
    step.batch = source.rebuild(share.note.substr(sizeof(note)), std::move(share.tensors));
  }
  return step;
}

}  // namespace

std::optional<ReadyStep> deal_out(Collectives& collectives,
                                  const loader_detail::BatchSource& source,
                                  std::optional<ReadyStep> step) {
  if (!step) {
    collectives.scatter(nullptr);
    return std::nullopt;
  }
  if (step->error) {
    collectives.scatter_failure(text_of(step->error));
    std::rethrow_exception(step->error);
  }
  const Note note{step->info.taken, step->info.next_taken};
  ScatterBatch batch;
  batch.note.assign(reinterpret_cast<const char*>(&note), sizeof(note));
  try {
    batch.note += step->batch->structure();
    batch.tensors = step->batch->tensors();
  } catch (const std::exception& error) {
    collectives.scatter_failure(error.what());
    throw;
  }
  step->batch.reset();
  return part_of(source, *collectives.scatter(&batch), step->info.begin);
}

std::optional<ReadyStep> receive_part(Collectives& collectives,
                                      const loader_detail::BatchSource& source, int64_t begin) {
  std::optional<ScatterShare> share = collectives.scatter(nullptr);
  if (!share) return std::nullopt;
  return part_of(source, std::move(*share), begin);
}

}  // namespace muster
