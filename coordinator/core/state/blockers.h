// What can keep a job from starting: one row per reason. Policies (policy.h) find reasons; events, `why`,
// `plan` and the refusal of a submit print them, and none of these knows a particular one.
//
// The journal keeps the reason of a queued job as text. After a restart it is recognized by its beginning,
// which the row fixes.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace muster::coordinator {

enum class Reason {
  kBehindOthers,
  kNoNodes,
  kDevices,
  kAddresses,
  kAbsentNodes,
  kTooLarge,
  kLimits,
  kPreparation,
  kRendezvous,
  kPrecision,
  kCheckpointPlace,
  kProjectLimit,
  kHeld,
  kProjectQuota,
  kOverLimit,
  kPersonLimit,
};

// Whether and when it can change.
enum class Lasts {
  kUntilOthersMove,   // until running jobs end, or those ahead of it start
  kUntilNodesChange,  // whatever runs, while the nodes in service stay as they are
  kForGood,           // unless nodes are added: a submit is refused
};

struct BlockerRow {
  Reason reason;
  // How the text begins, with the job as the subject; of_demand: after "needs 8 gpu; ".
  const char* text;
  bool of_demand = true;
  Lasts lasts = Lasts::kUntilOthersMove;
  bool others_pass = false;  // jobs behind it may start meanwhile
  const char* code = "";     // of the refusal, if it lasts for good
  const char* fix = "";      // likewise
};

inline constexpr auto kBlockers = std::to_array<BlockerRow>({
    {.reason = Reason::kBehindOthers,
     .text = "waits behind jobs that came first or have a higher priority",
     .of_demand = false},
    {.reason = Reason::kNoNodes, .text = "no node is registered yet"},
    {.reason = Reason::kDevices, .text = "free now: "},
    {.reason = Reason::kAddresses,
     .text = "a job on several nodes needs addresses that the nodes can reach: start those workers "
             "with --advertise ADDR",
     .lasts = Lasts::kUntilNodesChange,
     .others_pass = true},
    {.reason = Reason::kAbsentNodes,
     .text = "waits for ",
     .lasts = Lasts::kUntilNodesChange,
     .others_pass = true},
    {.reason = Reason::kTooLarge,
     .text = "it would not fit even if all registered nodes were free",
     .lasts = Lasts::kForGood,
     .others_pass = true,
     .code = "JC1402",
     .fix = "ask for less, or use --queue-anyway to wait for more nodes"},
    {.reason = Reason::kLimits,
     .text = "the nodes that can ",
     .lasts = Lasts::kForGood,
     .others_pass = true,
     .code = "JC1413",
     .fix = "omit the limit, or use --queue-anyway to wait for other nodes"},
    {.reason = Reason::kPreparation,
     .text = "the nodes that can ",
     .lasts = Lasts::kForGood,
     .others_pass = true,
     .code = "JC1402",
     .fix = "use --queue-anyway to wait for other nodes"},
    {.reason = Reason::kRendezvous,
     .text = "the nodes that can ",
     .lasts = Lasts::kForGood,
     .others_pass = true,
     .code = "JC1402",
     .fix = "ask for rendezvous: rank0, or use --queue-anyway to wait for other nodes"},
    {.reason = Reason::kPrecision,
     .text = "the nodes that can ",
     .lasts = Lasts::kForGood,
     .others_pass = true,
     .code = "JC1416",
     .fix = "use --queue-anyway to wait for other nodes"},
    {.reason = Reason::kCheckpointPlace,
     .text = "cannot resume yet: ",
     .of_demand = false,
     .lasts = Lasts::kUntilNodesChange,
     .others_pass = true},
    {.reason = Reason::kProjectLimit,
     .text = "waits for the limit of project ",
     .of_demand = false,
     .others_pass = true},
    {.reason = Reason::kHeld, .text = "the devices that are free are held for jobs ahead of it"},
    {.reason = Reason::kProjectQuota,
     .text = "may not be asked to give way, so it waits for the quota of project ",
     .of_demand = false,
     .others_pass = true},
    {.reason = Reason::kOverLimit,
     .text = "can never start: ",
     .of_demand = false,
     .lasts = Lasts::kForGood,
     .others_pass = true,
     .code = "JC1417",
     .fix = "ask for fewer devices, or have an operator raise the limit"},
    {.reason = Reason::kPersonLimit,
     .text = "waits for other jobs of its owner: ",
     .of_demand = false,
     .others_pass = true},
});
const BlockerRow& RowOf(Reason reason);

// One reason of one job, in words.
struct Blocker {
  Reason reason = Reason::kBehindOthers;
  std::string text;       // "needs 8 gpu; free now: 5 (node-b 3, node-a 2)"
  std::string first_fix;  // a fix to try before the row's: "on node1: Delegate=yes in its unit"
};
// `rest` follows the row's text. `needs`: "needs 8 gpu", for a row that is of_demand.
Blocker MakeBlocker(Reason reason, const std::string& rest = {}, const std::string& needs = {});
std::string FixOf(const Blocker& blocker);

// Whether a scheduling pass found this journaled reason in the job itself, so that a later pass may find it
// changed: true for every reason of a pass except kBehindOthers.
bool IsFoundByPass(std::string_view reason);

}  // namespace muster::coordinator
