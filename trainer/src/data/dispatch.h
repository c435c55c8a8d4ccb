// Distributes batches that rank 0 read to all ranks. Both functions are collective.
#pragma once

#include <memory>
#include <optional>

#include "data/batch_maker.h"
#include "muster/data/loader_core.h"

namespace muster {

// Rank 0: scatters the step's batch and returns it with rank 0's own share. nullopt means that
// there are no more steps. If the step has an error, throws it here, and CommunicationError with
// its message on the other ranks.
std::optional<ReadyStep> deal_out(Collectives& collectives,
                                  const loader_detail::BatchSource& source,
                                  std::optional<ReadyStep> step);

// The other ranks: receives their share. `begin` is the position in the epoch.
std::optional<ReadyStep> receive_part(Collectives& collectives,
                                      const loader_detail::BatchSource& source, int64_t begin);

}  // namespace muster
