// The kinds of rendezvous, and which one an attempt has.
#include "worker/rendezvous/rank_zero_store.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {
namespace {

constexpr RendezvousKind kKinds[] = {
    {"rank 0's store", &OpenForRankZero, &TellOfRankZero},
};

}  // namespace

// Whatever a job asks for, there is one.
const RendezvousKind& RendezvousOf(const v1::PrepareAttempt&) { return kKinds[0]; }
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt&) { return kKinds[0]; }

}  // namespace muster::worker
