// At what the ranks of an attempt meet.
#include <gtest/gtest.h>

#include "coordinator/core/state/rendezvous.h"

namespace muster::testing {
namespace {

using coordinator::SchedulingState;

v1::RendezvousKind KindOf(uint32_t ranks, uint32_t protocol,
                          v1::RendezvousKind asked = v1::RENDEZVOUS_KIND_UNSPECIFIED) {
  SchedulingState state;
  v1::Attempt attempt;
  attempt.set_world_size(ranks);
  for (const char* name : {"n1", "n2"}) {
    v1::NodeFacts& facts = *state.nodes[name].record.mutable_facts();
    facts.set_name(name);
    facts.set_protocol(name == std::string("n2") ? protocol : coordinator::kProtocolHasStore);
    v1::NodePart& part = *attempt.add_parts();
    part.set_node(name);
    part.set_group_rank(attempt.parts_size() - 1u);
    part.set_advertise(std::string("10.0.0.") + name[1]);
  }
  v1::JobSpec spec;
  spec.set_rendezvous(asked);
  coordinator::PlaceRendezvous(state, spec, &attempt);
  EXPECT_EQ(attempt.master_addr(), "10.0.0.1");
  return attempt.rendezvous();
}

TEST(Rendezvous, RankZerosStoreServesUpTo256RanksAndMustersMore) {
  EXPECT_EQ(KindOf(256, 4), v1::RENDEZVOUS_KIND_RANK0);
  EXPECT_EQ(KindOf(257, 4), v1::RENDEZVOUS_KIND_MUSTER);
}

TEST(Rendezvous, AJobChooses) {
  EXPECT_EQ(KindOf(2, 4, v1::RENDEZVOUS_KIND_MUSTER), v1::RENDEZVOUS_KIND_MUSTER);
  EXPECT_EQ(KindOf(4'096, 4, v1::RENDEZVOUS_KIND_RANK0), v1::RENDEZVOUS_KIND_RANK0);
}

TEST(Rendezvous, AnOlderWorkerHasNoStore) { EXPECT_EQ(KindOf(257, 3), v1::RENDEZVOUS_KIND_RANK0); }

TEST(Rendezvous, OnlyTheNodeOfRankZeroListensAndAllGetTheSecret) {
  v1::Attempt attempt;
  attempt.set_rendezvous(v1::RENDEZVOUS_KIND_MUSTER);
  attempt.set_rendezvous_secret("s");
  for (uint32_t i = 0; i < 2; ++i) attempt.add_parts()->set_group_rank(i);
  v1::PrepareAttempt first, second;
  coordinator::FillRendezvous(attempt, attempt.parts(0), &first);
  coordinator::FillRendezvous(attempt, attempt.parts(1), &second);
  EXPECT_EQ(first.count(), 1u);
  EXPECT_EQ(second.count(), 0u);
  v1::LaunchAttempt launch;
  coordinator::FillRendezvous(attempt, attempt.parts(1), &launch);
  EXPECT_EQ(launch.rendezvous_secret(), "s");
  EXPECT_EQ(launch.rendezvous(), v1::RENDEZVOUS_KIND_MUSTER);
}

}  // namespace
}  // namespace muster::testing
