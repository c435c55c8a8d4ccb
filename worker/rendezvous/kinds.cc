// The kinds of rendezvous, and the choice for an attempt.
#include "worker/rendezvous/attempt_store.h"
#include "worker/rendezvous/rank_zero_store.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {
namespace {

constexpr RendezvousKind kRankZeroStore = {
    .open = &OpenForRankZero,
    .listen = [](const v1::LaunchAttempt&) -> absl::StatusOr<RankSockets> { return RankSockets(); },
    .tell = &TellOfRankZero,
    .settings = [](const v1::LaunchAttempt&, size_t, size_t) { return std::string(); }};
constexpr RendezvousKind kAttemptStore = {.open = &OpenAttemptStore,
                                          .listen = &ListenForRanks,
                                          .tell = &TellOfAttemptStore,
                                          .settings = &AttemptStoreSettings};

// An older coordinator names none.
const RendezvousKind& KindOf(v1::RendezvousKind kind) {
  return kind == v1::RENDEZVOUS_KIND_MUSTER ? kAttemptStore : kRankZeroStore;
}

}  // namespace

const RendezvousKind& RendezvousOf(const v1::PrepareAttempt& order) {
  return KindOf(order.rendezvous());
}
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt& launch) {
  return KindOf(launch.rendezvous());
}

}  // namespace muster::worker
