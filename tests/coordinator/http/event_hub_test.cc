// The ring of events that every open page reads from.
#include "coordinator/http/pages/event_hub.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::coordinator::http {
namespace {

constexpr const char* kResyncAt7 = "id: 7\nevent: resync\ndata: {}\n\n";

TEST(EventRing, GivesEachClientWhatComesAfterWhatItHasSeen) {
  EventRing ring;
  uint64_t seen = 4;
  EXPECT_EQ(ring.Take(&seen), "");
  ring.Add(5, 6, "five and six;");
  ring.Add(7, 7, "seven;");
  EXPECT_EQ(ring.Take(&seen), "five and six;seven;");
  EXPECT_EQ(seen, 7u);
  EXPECT_EQ(ring.Take(&seen), "");
  seen = 6;
  EXPECT_EQ(ring.Take(&seen), "seven;");
}

TEST(EventRing, AClientThatMissedSomethingHasToReadAgain) {
  EventRing ring;
  ring.Add(5, 6, "five and six;");
  ring.Add(7, 7, "seven;");
  // Before the ring begins; not seen anything; of another data directory.
  for (uint64_t seen : {uint64_t{3}, EventRing::kFromNow, uint64_t{8}}) {
    EXPECT_EQ(ring.Take(&seen), kResyncAt7);
    EXPECT_EQ(seen, 7u);
    EXPECT_EQ(ring.Take(&seen), "");
  }
}

TEST(EventRing, ASlowClientFallsOutAndCostsNothing) {
  EventRing ring;
  uint64_t slow = 0;
  uint64_t quick = 0;
  const std::string text(EventRing::kPieceBytes, 'x');
  for (uint64_t number = 1; number <= 100; ++number) {
    ring.Add(number, number, text);
    EXPECT_EQ(ring.Take(&quick), text);
  }
  EXPECT_EQ(ring.Take(&slow), "id: 100\nevent: resync\ndata: {}\n\n");
  // One that is a little behind gets it piece by piece.
  uint64_t behind = 98;
  EXPECT_EQ(ring.Take(&behind), text);
  EXPECT_EQ(behind, 99u);
}

TEST(EventRing, WhatWasForgottenIsAGap) {
  EventRing ring;
  ring.Add(5, 7, "old;");
  uint64_t seen = 7;
  ring.Forget();
  EXPECT_EQ(ring.Take(&seen), "");
  ring.Add(9, 9, "nine;");
  EXPECT_EQ(ring.Take(&seen), "id: 9\nevent: resync\ndata: {}\n\n");
}

TEST(ServerSentEvents, TellWhatChangedButNotWhatAJobIsMadeOf) {
  v1::EventBatch batch;
  v1::Event& submitted = *batch.add_events();
  submitted.set_seq(7);
  submitted.set_job(3);
  (*submitted.mutable_job_submitted()->mutable_record()->mutable_spec()->mutable_env())["TOKEN"] =
      "secret";
  batch.add_texts("submitted\nby uid:1000");
  batch.add_events()->set_node("volatile");
  batch.add_texts("not journaled");
  EXPECT_EQ(ServerSentEvent(batch),
            "id: 7\nevent: change\ndata: {\"events\":[{\"seq\":\"7\",\"job\":\"3\"}],"
            "\"texts\":[\"submitted\\nby uid:1000\"]}\n\n");
  batch.mutable_events()->DeleteSubrange(0, 1);
  EXPECT_EQ(ServerSentEvent(batch), "");
}

}  // namespace
}  // namespace muster::coordinator::http
