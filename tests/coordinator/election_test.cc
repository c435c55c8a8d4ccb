#include "coordinator/election/election.h"

#include <gtest/gtest.h>

#include "coordinator/election/pieces.h"

namespace muster::coordinator::election {
namespace {

constexpr char kKey[] = "/a/leader";

v1::HeadRecord Head(const std::string& name, uint64_t instance, uint64_t position = 0) {
  v1::HeadRecord head;
  head.set_name(name);
  head.set_instance(instance);
  head.set_position(position);
  return head;
}

etcdserverpb::KeyValue LeaderKey(const v1::HeadRecord& head, int64_t lease, int64_t term) {
  etcdserverpb::KeyValue pair;
  pair.set_key(kKey);
  pair.set_value(head.SerializeAsString());
  pair.set_lease(lease);
  pair.set_create_revision(term);
  return pair;
}

etcdserverpb::TxnResponse Refused(const etcdserverpb::KeyValue& found) {
  etcdserverpb::TxnResponse answer;
  answer.mutable_header()->set_revision(90);
  *answer.add_responses()->mutable_response_range()->add_kvs() = found;
  return answer;
}

v1::CommitPiece Piece(bool first, bool last, const std::string& changes) {
  v1::CommitPiece piece;
  piece.set_first(first);
  piece.set_last(last);
  piece.set_changes(changes);
  return piece;
}

TEST(Election, ALeaseOfWhichTwoThirdsHavePassedSinceItsRenewalWasSentIsNotCampaignedWith) {
  const Lease lease{.id = 1, .ttl_ms = 6'000, .renewed_sent_ms = 10'000};
  EXPECT_TRUE(MayCampaign(lease, 13'999));
  EXPECT_FALSE(MayCampaign(lease, 14'000));
}

TEST(Election, ACampaignThatIsDoneBeginsATermWithItsRevision) {
  etcdserverpb::TxnResponse answer;
  answer.set_succeeded(true);
  answer.mutable_header()->set_revision(17);
  EXPECT_EQ(TermWon(answer, Head("a", 5), 1), 17);
}

TEST(Election, AKeyThatAnEarlierCampaignWithoutAnAnswerWroteIsTheTermOfItsRun) {
  const etcdserverpb::KeyValue earlier = LeaderKey(Head("a", 5, /*position=*/3), /*lease=*/1, 12);
  EXPECT_EQ(TermWon(Refused(earlier), Head("a", 5, /*position=*/8), 1), 12);
  EXPECT_FALSE(TermWon(Refused(earlier), Head("a", 6), 1).has_value());  // of another run
  EXPECT_FALSE(TermWon(Refused(earlier), Head("b", 5), 1).has_value());
  EXPECT_FALSE(TermWon(Refused(earlier), Head("a", 5), 2).has_value());  // ends with another lease
}

TEST(Election, ALookThatFindsTheKeyOfThisRunCampaignsBecauseNobodyElseCan) {
  etcdserverpb::RangeResponse leader;
  EXPECT_TRUE(ShouldCampaign(leader, Head("a", 5), 1));
  *leader.add_kvs() = LeaderKey(Head("a", 5), 1, 12);
  EXPECT_TRUE(ShouldCampaign(leader, Head("a", 5), 1));
  EXPECT_FALSE(ShouldCampaign(leader, Head("b", 7), 1));
}

TEST(Election, EachPieceIsAddedByTheLeaderOfTheTermAloneAndOnce) {
  const etcdserverpb::TxnRequest request = AddPieceTxn(kKey, 12, "/a/log/1", "piece");
  ASSERT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.compare(0).key(), kKey);
  EXPECT_EQ(request.compare(0).create_revision(), 12);
  EXPECT_EQ(request.compare(1).key(), "/a/log/1");
  EXPECT_EQ(request.compare(1).target(), etcdserverpb::Compare::CREATE);
  EXPECT_EQ(request.compare(1).create_revision(), 0);
}

TEST(Election, APieceThatAnEarlierTryAddedIsAddedAndAnotherOnesIsNot) {
  etcdserverpb::KeyValue found;
  found.set_value("piece");
  EXPECT_TRUE(IsAdded(Refused(found), "piece"));
  EXPECT_FALSE(IsAdded(Refused(found), "other"));
  EXPECT_FALSE(IsAdded(etcdserverpb::TxnResponse(), "piece"));
}

TEST(Election, PiecesWithoutTheirLastOneCountAsNothing) {
  Gathering gathering;
  EXPECT_FALSE(gathering.Add(Piece(false, true, "its begin was not read")).has_value());
  EXPECT_FALSE(gathering.Add(Piece(true, false, "a leader died after this")).has_value());
  EXPECT_FALSE(gathering.Add(Piece(true, false, "first, ")).has_value());
  EXPECT_EQ(gathering.Add(Piece(false, true, "last")), "first, last");
  EXPECT_EQ(gathering.Add(Piece(true, true, "whole")), "whole");
}

}  // namespace
}  // namespace muster::coordinator::election
