// Commands in running jobs: who may, where they run, and how two streams become one.
#include "coordinator/exec/exec.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "common/problem.h"
#include "coordinator/core/state/input.h"
#include "coordinator/identity/ownership.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kOwnUid = 990;

// A stream whose other end does nothing on its own.
template <typename Out>
class FakeEnd final : public ExecEnd<Out> {
 public:
  void Write(Out message) override {
    queued_ += message.ByteSizeLong();
    written.push_back(std::move(message));
  }
  size_t QueuedBytes() const override { return queued_; }
  void ReadNext() override { ++reads; }
  void Close(const absl::Status& status) override {
    if (!closed.has_value()) closed = status;
  }
  void SendAll() { queued_ = 0; }

  std::vector<Out> written;
  int reads = 0;
  std::optional<absl::Status> closed;

 private:
  size_t queued_ = 0;
};
using FakeClient = FakeEnd<v1::ExecOutput>;
using FakeNode = FakeEnd<v1::ExecInput>;

class FakeOrders final : public Sink<v1::ExecOrder> {
 public:
  void Write(v1::ExecOrder order) override { written.push_back(std::move(order)); }
  void Close(const absl::Status& status) override { closed = status; }
  size_t QueuedBytes() const override { return 0; }
  bool Gone() const override { return false; }
  void Observe(std::function<void()>, std::function<void()> gone) override {
    leave = std::move(gone);
  }
  std::vector<v1::ExecOrder> written;
  std::optional<absl::Status> closed;
  std::function<void()> leave;
};

Caller User(const std::string& name, v1::Role role = v1::ROLE_USER) {
  return {.principal = "user:" + name, .role = role, .from = "", .serial = "01"};
}

v1::ExecInput Input(size_t bytes) {
  v1::ExecInput input;
  input.set_stdin(std::string(bytes, 'x'));
  return input;
}

v1::ExecOutput Output(size_t bytes) {
  v1::ExecOutput output;
  output.set_stdout(std::string(bytes, 'x'));
  return output;
}

class ExecTest : public testing::Test {
 protected:
  struct Opened {
    std::shared_ptr<FakeClient> client = std::make_shared<FakeClient>();
    std::shared_ptr<ExecSession> session = std::make_shared<ExecSession>();
    absl::Status status;
  };
  Opened Open(const std::string& node = "node1", const std::string& who = "alice") {
    Opened opened;
    opened.session->Begin(opened.client);
    v1::ExecStart start;
    start.set_rank(3);
    start.add_command("ps");
    opened.status = broker_.Open({node, 7, "fit-7", 2}, start, User(who), opened.session);
    return opened;
  }
  std::shared_ptr<FakeOrders> Await(const std::string& node = "node1") {
    auto orders = std::make_shared<FakeOrders>();
    broker_.Await(node, orders);
    return orders;
  }
  std::shared_ptr<FakeNode> Serve(const std::string& id, const std::string& worker = "node1") {
    const auto session = broker_.Serve(
        id, {.principal = "worker:" + worker, .role = v1::ROLE_WORKER, .from = "", .serial = "02"});
    if (!session.ok()) return nullptr;
    auto node = std::make_shared<FakeNode>();
    (*session)->Join(node);
    return node;
  }

  std::vector<std::function<void()>> later_;
  ExecBroker broker_{[this](std::chrono::milliseconds, std::function<void()> task) {
    later_.push_back(std::move(task));
  }};
};

TEST_F(ExecTest, AnOrderNamesTheCommandAndTheRankAndItsStreamMeetsThePersons) {
  const auto orders = Await();
  const Opened opened = Open();
  ASSERT_TRUE(opened.status.ok());
  ASSERT_EQ(orders->written.size(), 1u);
  const v1::ExecOrder& order = orders->written[0];
  EXPECT_EQ(order.session().size(), 32u);
  EXPECT_EQ(order.job(), 7u);
  EXPECT_EQ(order.attempt(), 2u);
  EXPECT_EQ(order.rank(), 3u);
  EXPECT_EQ(order.command(0), "ps");
  EXPECT_EQ(order.by(), "user:alice");
  EXPECT_EQ(opened.client->reads, 0) << "nothing is read before there is somewhere to put it";
  const auto node = Serve(order.session());
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(opened.client->reads, 1);
  EXPECT_EQ(node->reads, 1);
  opened.session->OnInput(Input(3));
  opened.session->OnOutput(Output(5));
  EXPECT_EQ(node->written.at(0).stdin(), "xxx");
  EXPECT_EQ(opened.client->written.at(0).stdout(), "xxxxx");
  EXPECT_EQ(opened.client->reads, 2);
  EXPECT_EQ(node->reads, 2);
}

TEST_F(ExecTest, OnlyTheNodeThatWasAskedServesASessionAndOnlyOnce) {
  const auto orders = Await();
  const Opened opened = Open();
  const std::string id = orders->written.at(0).session();
  EXPECT_EQ(Serve(id, "node2"), nullptr);
  EXPECT_EQ(Serve(std::string(32, '0')), nullptr);
  EXPECT_NE(Serve(id), nullptr);
  EXPECT_EQ(Serve(id), nullptr);
  EXPECT_TRUE(CheckServes({.principal = "peer:10.0.0.7"}, "node1").ok());
  EXPECT_EQ(common::CodeOf(CheckServes({.principal = "worker:node2"}, "node1")), "JC1320");
}

TEST_F(ExecTest, ANodeThatTakesNoOrdersIsNamed) {
  EXPECT_EQ(common::CodeOf(Open().status), "JC1343");
  const auto orders = Await();
  orders->leave();
  const absl::Status gone = Open().status;
  EXPECT_EQ(common::CodeOf(gone), "JC1343");
  EXPECT_NE(gone.message().find("node1"), std::string::npos);
}

TEST_F(ExecTest, ANewerStreamOfANodeReplacesTheOlderOneWhoseEndThenChangesNothing) {
  const auto older = Await();
  const auto newer = Await();
  EXPECT_TRUE(older->closed.has_value());
  older->leave();
  EXPECT_TRUE(Open().status.ok());
  EXPECT_EQ(newer->written.size(), 1u);
}

TEST_F(ExecTest, ANodeThatDoesNotComeEndsThePersonsStream) {
  const auto orders = Await();
  const Opened opened = Open();
  ASSERT_EQ(later_.size(), 1u);
  later_[0]();
  ASSERT_TRUE(opened.client->closed.has_value());
  EXPECT_EQ(common::CodeOf(*opened.client->closed), "JC1343");
  EXPECT_EQ(Serve(orders->written[0].session()), nullptr);
}

TEST_F(ExecTest, ANodeThatCameInTimeIsNotGivenUp) {
  const auto orders = Await();
  const Opened opened = Open();
  const auto node = Serve(orders->written[0].session());
  later_[0]();
  EXPECT_FALSE(opened.client->closed.has_value());
}

TEST_F(ExecTest, EachEndEndsTheOther) {
  const auto orders = Await();
  const Opened left = Open();
  const auto node = Serve(orders->written[0].session());
  left.session->ClientGone();
  EXPECT_TRUE(node->closed.has_value());

  const Opened lost = Open();
  const auto lost_node = Serve(orders->written[1].session());
  lost.session->NodeGone();
  ASSERT_TRUE(lost.client->closed.has_value());
  EXPECT_EQ(common::CodeOf(*lost.client->closed), "JC1343");

  const Opened done = Open();
  const auto done_node = Serve(orders->written[2].session());
  v1::ExecOutput last;
  last.mutable_ended()->set_exit_code(3);
  done.session->OnOutput(last);
  EXPECT_EQ(done.client->written.at(0).ended().exit_code(), 3);
  EXPECT_TRUE(done.client->closed->ok());
  EXPECT_TRUE(done_node->closed->ok());
}

TEST_F(ExecTest, APersonWhoLeftBeforeTheNodeCameLeavesNothingToServe) {
  const auto orders = Await();
  const Opened opened = Open();
  opened.session->ClientGone();
  const auto node = Serve(orders->written[0].session());
  ASSERT_NE(node, nullptr);
  EXPECT_TRUE(node->closed.has_value());
  EXPECT_EQ(node->reads, 0);
}

TEST_F(ExecTest, AReaderThatDoesNotReadStopsTheOtherSideAtABound) {
  const auto orders = Await();
  const Opened opened = Open();
  const auto node = Serve(orders->written[0].session());
  int given = 0;
  while (node->reads > given) {
    ++given;
    opened.session->OnOutput(Output(kExecMessageBytesMax));
    ASSERT_LT(given, 100);
  }
  EXPECT_LT(opened.client->QueuedBytes(), kExecOutboxBytesMax + kExecMessageBytesMax + 64);
  const int paused_at = node->reads;
  opened.session->ClientWritten();
  EXPECT_EQ(node->reads, paused_at) << "there is no room yet";
  opened.client->SendAll();
  opened.session->ClientWritten();
  EXPECT_EQ(node->reads, paused_at + 1);
  opened.session->ClientWritten();
  EXPECT_EQ(node->reads, paused_at + 1) << "one message is asked for at a time";
  EXPECT_EQ(opened.client->reads, 1) << "the other direction is not touched";
}

TEST_F(ExecTest, AMessageThatIsTooLargeEndsBoth) {
  const auto orders = Await();
  const Opened opened = Open();
  const auto node = Serve(orders->written[0].session());
  opened.session->OnInput(Input(kExecMessageBytesMax + 1'000));
  EXPECT_TRUE(absl::IsInvalidArgument(*opened.client->closed));
  EXPECT_TRUE(node->closed.has_value());
  EXPECT_TRUE(node->written.empty());
}

TEST_F(ExecTest, ANodeRunsEightAtOnceAndACoordinatorSixtyFour) {
  std::deque<Opened> held;
  // Each by a person who has no other.
  const auto fill = [&](const std::string& node) {
    Await(node);
    size_t fitted = 0;
    while (true) {
      Opened opened = Open(node, node + std::to_string(fitted));
      if (!opened.status.ok()) {
        EXPECT_EQ(common::CodeOf(opened.status), "JC1343");
        return fitted;
      }
      held.push_back(std::move(opened));
      ++fitted;
    }
  };
  EXPECT_EQ(fill("node1"), kExecSessionsPerNodeMax);
  for (int i = 2; i <= 8; ++i) fill("node" + std::to_string(i));
  EXPECT_EQ(held.size(), kExecSessionsMax);
  EXPECT_EQ(fill("node9"), 0u);
  held.pop_front();  // both streams are gone, but the order may still be on its way
  EXPECT_EQ(fill("node9"), 0u);
  later_.front()();
  EXPECT_EQ(fill("node9"), 1u);
}

TEST_F(ExecTest, OnePersonTakesFourPlacesOfANodeAndSixteenInAll) {
  std::deque<Opened> held;
  const auto fill = [&](const std::string& node) {
    Await(node);
    for (size_t fitted = 0;; ++fitted) {
      Opened opened = Open(node);
      if (!opened.status.ok()) {
        EXPECT_EQ(common::CodeOf(opened.status), "JC1343");
        EXPECT_NE(opened.status.message().find("user:alice"), std::string::npos);
        return fitted;
      }
      held.push_back(std::move(opened));
    }
  };
  EXPECT_EQ(fill("node1"), kExecSessionsOfOnePerNodeMax);
  for (int i = 2; i <= 4; ++i) fill("node" + std::to_string(i));
  EXPECT_EQ(held.size(), kExecSessionsOfOneMax);
  EXPECT_EQ(fill("node5"), 0u);
  EXPECT_TRUE(Open("node1", "bob").status.ok());
  EXPECT_TRUE(Open("node5", "bob").status.ok());
}

TEST_F(ExecTest, AStreamThatNamesNoCommandIsEnded) {
  const auto silent = std::make_shared<ExecSession>();
  const auto client = std::make_shared<FakeClient>();
  silent->Begin(client);
  broker_.ExpectStart(silent);
  ASSERT_EQ(later_.size(), 1u);
  later_[0]();
  ASSERT_TRUE(client->closed.has_value());
  EXPECT_EQ(common::CodeOf(*client->closed), "JC1343");
  EXPECT_FALSE(silent->TakeStart()) << "a command that comes too late starts nothing";

  const auto talking = std::make_shared<ExecSession>();
  const auto other = std::make_shared<FakeClient>();
  talking->Begin(other);
  broker_.ExpectStart(talking);
  EXPECT_TRUE(talking->TakeStart());
  EXPECT_FALSE(talking->TakeStart());
  later_[1]();
  EXPECT_FALSE(other->closed.has_value());
}

v1::JobRecord RunningJob() {
  v1::JobRecord job;
  job.set_id(7);
  job.set_name("fit-7");
  job.set_owner("user:alice");
  job.set_state(v1::JOB_STATE_RUNNING);
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_number(1);
  attempt.set_world_size(4);
  attempt.set_running_ms(5);
  for (int i = 0; i < 2; ++i) {
    v1::NodePart& part = *attempt.add_parts();
    part.set_node("node" + std::to_string(i + 1));
    part.set_first_rank(static_cast<uint32_t>(2 * i));
    part.set_local_world_size(2);
  }
  return job;
}

TEST(ExecPlaceTest, ARankIsFoundOnItsNode) {
  const v1::JobRecord job = RunningJob();
  EXPECT_EQ(PlaceOfRank(job, 1)->node, "node1");
  const auto place = PlaceOfRank(job, 2);
  EXPECT_EQ(place->node, "node2");
  EXPECT_EQ(place->job, 7u);
  EXPECT_EQ(place->attempt, 1u);
}

TEST(ExecPlaceTest, ARankThatDoesNotRunIsRefused) {
  v1::JobRecord job = RunningJob();
  EXPECT_EQ(common::CodeOf(PlaceOfRank(job, 4).status()), "JC1211");
  job.mutable_attempts(0)->mutable_parts(1)->add_exits()->set_rank(3);
  EXPECT_EQ(common::CodeOf(PlaceOfRank(job, 3).status()), "JC1208");
  EXPECT_TRUE(PlaceOfRank(job, 2).ok());
  job.mutable_attempts(0)->set_running_ms(0);
  EXPECT_EQ(common::CodeOf(PlaceOfRank(job, 0).status()), "JC1208");
  job.mutable_attempts(0)->set_running_ms(5);
  job.mutable_attempts(0)->set_ended_ms(9);
  job.set_state(v1::JOB_STATE_RESTARTING);
  EXPECT_EQ(common::CodeOf(PlaceOfRank(job, 0).status()), "JC1208");
}

TEST(ExecRightsTest, OnlyTheOwnerRunsCommandsInAJob) {
  const v1::JobRecord job = RunningJob();
  const auto may = [&](const Caller& caller) {
    return CheckMayRunCommands(caller, kOwnUid, job).ok();
  };
  EXPECT_TRUE(may(User("alice")));
  EXPECT_FALSE(may(User("bob")));
  EXPECT_FALSE(may(User("bob", v1::ROLE_OPERATOR)));
  EXPECT_FALSE(may(User("bob", v1::ROLE_ADMIN)));
  // An administrator's account on this machine is a person; root and the coordinator read it all anyway.
  EXPECT_FALSE(may({.principal = "uid:1000", .role = v1::ROLE_ADMIN}));
  EXPECT_TRUE(may({.principal = "uid:0", .role = v1::ROLE_ADMIN}));
  EXPECT_TRUE(may({.principal = "uid:990", .role = v1::ROLE_ADMIN}));
  EXPECT_TRUE(may({.principal = "peer:10.0.0.7", .role = v1::ROLE_ADMIN}));
  EXPECT_EQ(common::CodeOf(CheckMayRunCommands(User("bob"), kOwnUid, job)), "JC1320");
}

}  // namespace
}  // namespace muster::coordinator
