// The legal edges of an attempt's life on a node, as data: see the drawing in state.h. Pure.
#pragma once

#include <span>

#include "worker/core/state.h"

namespace muster::worker {

enum class Change : uint8_t {
  kHold,          // ports asked for
  kWait,          // Launch, while an older attempt lives here
  kPrepare,       // Launch, or the older attempt is gone
  kFetch,         // directory and launch.pb are there; a checkpoint is needed
  kSpawn,         // nothing is missing
  kRanksStarted,  // the shim said so
  kEnd,           // nothing of it is alive here
};

struct StageRow {
  Stage from;
  Change change;
  Stage to;
};

std::span<const StageRow> StageRows();
// Moves along a row; a CHECK fails when there is none.
void Move(Attempt& attempt, Change change);
const char* StageName(Stage stage);

}  // namespace muster::worker
