// The kinds of rendezvous, and the choice for an attempt.
#include "worker/rendezvous/rank_zero_store.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {
namespace {

constexpr RendezvousKind kRankZeroStore = {.open = &OpenForRankZero, .tell = &TellOfRankZero};

}  // namespace

// There is only one kind, whatever a job asks for.
const RendezvousKind& RendezvousOf(const v1::PrepareAttempt&) { return kRankZeroStore; }
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt&) { return kRankZeroStore; }

}  // namespace muster::worker
