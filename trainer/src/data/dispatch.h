// Batches that rank 0 has read on their way to all ranks; both functions are collective.
#pragma once

#include <memory>
#include <optional>

#include "data/batch_maker.h"
#include "muster/data/loader_core.h"

namespace muster {

// Rank 0: deals the step's batch out and returns it with rank 0's own part. nullopt says that there
// is no step at all. A step with an error throws it here and CommunicationError with its text on
// the other ranks.
std::optional<ReadyStep> deal_out(Collectives& collectives,
                                  const loader_detail::BatchSource& source,
                                  std::optional<ReadyStep> step);

// The other ranks: their part of it. `begin` is the position in the epoch.
std::optional<ReadyStep> receive_part(Collectives& collectives,
                                      const loader_detail::BatchSource& source, int64_t begin);

}  // namespace muster
