// The kinds of rendezvous, and which one an attempt has.
#include "worker/rendezvous/rank_zero_store.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {
namespace {

constexpr RendezvousKind kRankZeroStore = {.open = &OpenForRankZero, .tell = &TellOfRankZero};

}  // namespace

// Whatever a job asks for, there is one.
const RendezvousKind& RendezvousOf(const v1::PrepareAttempt&) { return kRankZeroStore; }
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt&) { return kRankZeroStore; }

}  // namespace muster::worker
