// What people see of the coordinators that replace each other, and that one that stands by answers it.
#include "coordinator/calls/coordinators.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "coordinator/services/standby_server.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

v1::HeadRecord Registered(const std::string& name, uint64_t position, uint64_t instance) {
  v1::HeadRecord head;
  head.set_name(name);
  head.set_version("0.9");
  head.set_endpoint(name + ":7700");
  head.set_http(name + ":7701");
  head.set_position(position);
  head.set_instance(instance);
  return head;
}

// h2 leads since position 10.
HeadsView ViewOfThree() {
  return {.leader = Registered("h2", 10, 2),
          .term = 812,
          .heads = {Registered("h3", 31, 3), Registered("h1", 40, 1), Registered("h2", 42, 2)},
          .seen_ms = 1'000};
}

std::string TextOf(const v1::ListCoordinatorsResponse& list) {
  std::string text;
  for (const v1::CoordinatorView& each : list.coordinators()) {
    text += each.name() + (each.leads() ? " leads in " + std::to_string(each.term()) : "") + ", " +
            std::to_string(each.lag()) + " behind\n";
  }
  return text;
}

TEST(CoordinatorsTest, AreListedByNameWithHowFarTheyAreBehindTheOneThatLeads) {
  const auto list = CoordinatorsIn(ViewOfThree(), "h1", {.mono_ms = 1'500, .wall_ms = 90'000});
  EXPECT_EQ(TextOf(list), "h1, 2 behind\nh2 leads in 812, 0 behind\nh3, 11 behind\n");
  EXPECT_EQ(list.answered_by(), "h1");
  EXPECT_EQ(list.seen_ms(), 89'500);
  EXPECT_FALSE(list.alone());
  EXPECT_EQ(list.coordinators(2).endpoint(), "h3:7700");
  EXPECT_EQ(list.coordinators(2).http(), "h3:7701");
  EXPECT_EQ(list.coordinators(2).version(), "0.9");
}

TEST(CoordinatorsTest, OneThatIsAheadOfTheLeadersLastRenewalIsNotBehind) {
  HeadsView view = ViewOfThree();
  view.heads[0].set_position(43);
  EXPECT_EQ(CoordinatorsIn(view, "h1", {}).coordinators(2).lag(), 0u);
}

TEST(CoordinatorsTest, WhileNoneLeadsTheyAreComparedWithTheOneThatHasMost) {
  HeadsView view = ViewOfThree();
  view.leader.Clear();
  view.term = 0;
  view.heads.pop_back();
  EXPECT_EQ(TextOf(CoordinatorsIn(view, "h1", {})), "h1, 0 behind\nh3, 9 behind\n");
}

TEST(CoordinatorsTest, AnEarlierRunOfALeadersNameDoesNotLead) {
  HeadsView view = ViewOfThree();
  view.heads.pop_back();
  view.heads.push_back(Registered("h2", 5, 77));
  const auto list = CoordinatorsIn(view, "h1", {});
  ASSERT_EQ(list.coordinators_size(), 4);
  EXPECT_NE(list.coordinators(1).leads(), list.coordinators(2).leads());
}

TEST(CoordinatorsTest, BeforeEtcdHasAnsweredNothingIsKnown) {
  const auto list = CoordinatorsIn({}, "h1", {.mono_ms = 1'500, .wall_ms = 90'000});
  EXPECT_EQ(list.coordinators_size(), 0);
  EXPECT_EQ(list.seen_ms(), 0);
}

TEST(CoordinatorsTest, OneThatStandsByAnswersAndRefusesOtherCalls) {
  const TempDir dir;
  HeadsView view = ViewOfThree();
  view.leader.Clear();
  view.seen_ms = common::MonotonicMs();
  const std::string socket = dir.path() + "/c.sock";
  auto server = StandbyServer::Start(
      {.socket = socket, .port = {}, .name = "h1", .view = [&] { return view; }});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::JobService::NewStub(
      grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  grpc::ClientContext asking, refused;
  v1::ListCoordinatorsResponse list;
  const grpc::Status done = stub->ListCoordinators(&asking, v1::ListCoordinatorsRequest(), &list);
  ASSERT_TRUE(done.ok()) << done.error_message();
  EXPECT_EQ(list.answered_by(), "h1");
  EXPECT_EQ(TextOf(list), "h1, 2 behind\nh2, 0 behind\nh3, 11 behind\n");
  v1::ListNodesResponse nodes;
  const grpc::Status other = stub->ListNodes(&refused, v1::ListNodesRequest(), &nodes);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(other.error_message().find("the coordinator h1 stands by"), std::string::npos);
}

}  // namespace
}  // namespace muster::coordinator
