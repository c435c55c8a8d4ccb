// What muster-rendezvous publishes about the ranks of its node, and the node's worker reads: a file of one entry per
// local rank, mapped by both. The writer runs as the ranks' account, so a reader checks what it reads. No lock: an
// entry that is being written may be read half old, half new, and is right a second later.
#pragma once

#include <cstdint>

namespace muster::common {

inline constexpr char kRendezvousStatusName[] = "rendezvous.status";  // in the attempt's directory

struct RankAtStore {
  static constexpr uint32_t kHasJoined = 1;  // it has connected, now or before
  static constexpr uint32_t kWaits = 2;      // it waits for a key, or at a barrier
  static constexpr uint32_t kAtBarrier = 4;  // … of these, the latter
  static constexpr uint32_t kEnded =
      8;  // its wait was ended: no rank was left that could have set the key
  uint32_t flags = 0;
  uint32_t connections = 0;
  uint32_t keys = 0;      // how many it waits for
  uint32_t waits_ms = 0;  // for how long
  char key[112] = {};     // one of them; ends with a zero byte unless it is longer
};
static_assert(sizeof(RankAtStore) == 128);

}  // namespace muster::common
