// stages: the table. Pure.
#include "worker/core/stages.h"

#include "common/base/status.h"

namespace muster::worker {
namespace {

constexpr StageRow kRows[] = {
    {Stage::kNew, Change::kPrepare, Stage::kPreparing},
    {Stage::kNew, Change::kWait, Stage::kWaiting},
    {Stage::kNew, Change::kRecord, Stage::kRecording},
    {Stage::kNew, Change::kEnd, Stage::kEnded},  // a stop for an attempt that never started here
    {Stage::kPreparing, Change::kWait, Stage::kWaiting},
    {Stage::kPreparing, Change::kRecord, Stage::kRecording},
    {Stage::kPreparing, Change::kEnd, Stage::kEnded},
    {Stage::kWaiting, Change::kRecord, Stage::kRecording},
    {Stage::kWaiting, Change::kEnd, Stage::kEnded},
    {Stage::kRecording, Change::kFetch, Stage::kFetching},
    {Stage::kRecording, Change::kSpawn, Stage::kSpawning},
    {Stage::kRecording, Change::kEnd, Stage::kEnded},
    {Stage::kFetching, Change::kSpawn, Stage::kSpawning},
    {Stage::kFetching, Change::kEnd, Stage::kEnded},
    {Stage::kSpawning, Change::kRanksStarted, Stage::kRunning},
    {Stage::kSpawning, Change::kEnd, Stage::kEnded},
    {Stage::kRunning, Change::kEnd, Stage::kEnded},
};

}  // namespace

std::span<const StageRow> StageRows() { return kRows; }

void Move(Attempt& attempt, Change change) {
  for (const StageRow& row : kRows) {
    if (row.from == attempt.stage && row.change == change) {
      attempt.stage = row.to;
      return;
    }
  }
  // Whatever a coordinator or a shim says, what handles it looks at the stage first.
  CHECK(false && "no such edge in the life of an attempt");
}

const char* StageName(Stage stage) {
  switch (stage) {
    case Stage::kNew:
      return "new";
    case Stage::kPreparing:
      return "preparing";
    case Stage::kWaiting:
      return "waiting";
    case Stage::kRecording:
      return "recording";
    case Stage::kFetching:
      return "fetching";
    case Stage::kSpawning:
      return "spawning";
    case Stage::kRunning:
      return "running";
    case Stage::kEnded:
      return "ended";
  }
  return "?";
}

}  // namespace muster::worker
