// The legal transitions of an attempt on a node, as data: see the diagram in state.h. Pure.
#pragma once

#include <span>

#include "worker/core/state.h"

namespace muster::worker {

enum class Change : uint8_t {
  kPrepare,       // PrepareAttempt
  kWait,          // Launch, while an older attempt is alive here
  kRecord,        // Launch, or the older attempt is gone
  kFetch,         // directory and launch.pb exist; a checkpoint is needed
  kSpawn,         // nothing is missing
  kRanksStarted,  // reported by the shim
  kEnd,           // nothing of it is alive here
};

struct StageRow {
  Stage from;
  Change change;
  Stage to;
};

std::span<const StageRow> StageRows();
// Takes the transition in the table; a CHECK fails if there is none.
void Move(Attempt& attempt, Change change);
const char* StageName(Stage stage);

}  // namespace muster::worker
