// Who fetches a checkpoint from whom.
#include "coordinator/gates/resume_peers.h"

#include <gtest/gtest.h>

#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

v1::FilePeer OfferOf(uint32_t rank, uint32_t port = 1) {
  v1::FilePeer offer;
  offer.set_address(common::StrCat("node", rank));
  offer.set_port(port);
  return offer;
}

TEST(ResumePeers, FormATreeInTheOrderInWhichTheyAsk) {
  ResumePeers peers;
  EXPECT_FALSE(peers.Join(1, 0, 5, OfferOf(5)).has_value()) << "the first asks the store";
  const std::pair<uint32_t, const char*> others[] = {{0, "node5"}, {3, "node5"}, {1, "node0"},
                                                     {2, "node0"}, {4, "node3"}, {6, "node3"},
                                                     {7, "node1"}};
  for (const auto& [rank, from] : others) {
    const auto peer = peers.Join(1, 0, rank, OfferOf(rank));
    ASSERT_TRUE(peer.has_value());
    EXPECT_EQ(peer->address(), from) << "node" << rank;
  }
  EXPECT_FALSE(peers.Join(1, 1, 0, OfferOf(0)).has_value()) << "another attempt has its own";
}

// A worker that restarted serves on another port. It keeps its place: none before it ever waits for it.
TEST(ResumePeers, ANodeThatAsksAgainKeepsItsPlace) {
  ResumePeers peers;
  peers.Join(1, 0, 0, OfferOf(0));
  peers.Join(1, 0, 1, OfferOf(1));
  EXPECT_FALSE(peers.Join(1, 0, 0, OfferOf(0, 2)).has_value());
  EXPECT_EQ(peers.Join(1, 0, 1, OfferOf(1))->port(), 2u);
  EXPECT_EQ(peers.Join(1, 0, 2, OfferOf(2))->port(), 2u);
}

TEST(ResumePeers, ForgetTheOldestAttempt) {
  ResumePeers peers;
  for (uint32_t job = 0; job <= ResumePeers::kAttemptsMax; ++job) peers.Join(job, 0, 0, OfferOf(0));
  EXPECT_FALSE(peers.Join(0, 0, 1, OfferOf(1)).has_value())
      << "it was forgotten, and begins once more";
  EXPECT_TRUE(peers.Join(ResumePeers::kAttemptsMax, 0, 1, OfferOf(1)).has_value());
}

}  // namespace
}  // namespace muster::coordinator
