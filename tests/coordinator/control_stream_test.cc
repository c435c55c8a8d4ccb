// What a coordinator keeps for a worker that does not read.
#include "coordinator/services/control_stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/version.h"
#include "coordinator/services/waiting_launches.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/coordinator/workers_daemon.h"

namespace muster::coordinator {
namespace {

v1::CoordinatorMessage Launch(uint64_t job, bool has_secrets, size_t bytes = 0) {
  v1::CoordinatorMessage message;
  message.mutable_launch()->set_job(job);
  message.mutable_launch()->mutable_spec()->set_workdir(std::string(bytes, 'x'));
  if (has_secrets) message.mutable_launch()->mutable_spec()->add_secrets("token");
  return message;
}

TEST(WaitingLaunchesTest, WhatFollowsALaunchWithSecretsKeepsItsPlaceAndIsCounted) {
  WaitingLaunches launches;
  using Took = WaitingLaunches::Took;
  const auto take = [&](v1::CoordinatorMessage message) { return launches.Take(message); };
  EXPECT_EQ(take(Launch(1, false)), Took::kNo);
  EXPECT_EQ(take(Launch(2, true, 1'000)), Took::kFirst);
  EXPECT_EQ(take(Launch(3, false, 1'000)), Took::kYes);
  EXPECT_GT(launches.Bytes(), 2'000u);
  std::vector<uint64_t> filled, sent;
  launches.SendAll(
      [&](v1::LaunchAttempt* launch) {
        filled.push_back(launch->job());
        if (filled.size() == 1) {
          EXPECT_EQ(take(Launch(4, true)), Took::kYes);
        }
      },
      [&](const v1::CoordinatorMessage& message) { sent.push_back(message.launch().job()); });
  EXPECT_EQ(filled, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(sent, (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(launches.Bytes(), 0u);
  EXPECT_EQ(take(Launch(5, false)), Took::kNo);
}

TEST(WaitingLaunchesTest, OfAStreamThatIsOverNothingIsSent) {
  WaitingLaunches launches;
  v1::CoordinatorMessage message = Launch(1, true, 1'000);
  launches.Take(message);
  launches.Drop();
  EXPECT_EQ(launches.Bytes(), 0u);
  launches.SendAll([](auto*) { FAIL(); }, [](const auto&) { FAIL(); });
}

class ControlStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    control_ = stub_->Connect(&context_);
    v1::WorkerMessage hello;
    v1::NodeFacts* facts = hello.mutable_register_()->mutable_facts();
    facts->set_name("node1");
    facts->set_incarnation(7);
    facts->set_boot_id("boot");
    facts->set_process(17);
    facts->set_advertise("127.0.0.1");
    facts->set_protocol(common::kProtocol);
    facts->set_cores(1);
    control_->Write(hello);
    v1::CoordinatorMessage message;
    while (!message.has_registered()) ASSERT_TRUE(control_->Read(&message));
  }
  // As the loop sends its commands.
  void Send(const std::vector<v1::CoordinatorMessage>& messages) {
    std::promise<void> sent;
    coordinator_.daemon().jobs.loop.Ask([&](const LoopView& view) -> std::function<void()> {
      for (const v1::CoordinatorMessage& message : messages) view.send("node1", message);
      sent.set_value();
      return nullptr;
    });
    sent.get_future().wait();
  }
  grpc::Status End() {
    v1::CoordinatorMessage message;
    while (control_->Read(&message)) {
    }
    return control_->Finish();
  }

  const TempDir temp_;
  WorkersDaemon coordinator_{temp_.path()};
  const std::unique_ptr<v1::WorkerService::Stub> stub_ =
      v1::WorkerService::NewStub(coordinator_.channel());
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> control_;
};

TEST_F(ControlStreamTest, LaunchesThatWaitForTheirSecretsCountAsUnread) {
  // The disk that has the secrets hangs.
  std::promise<void> disk;
  const std::shared_future<void> disk_is_back = disk.get_future().share();
  for (int i = 0; i < 2; ++i)
    coordinator_.daemon().process.pool.Post([disk_is_back] { disk_is_back.wait(); });
  Send(std::vector<v1::CoordinatorMessage>(70, Launch(1, true, 1 << 20)));
  const grpc::Status ended = End();
  disk.set_value();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << ended.error_message();
}

TEST_F(ControlStreamTest, LaunchesWithSecretsArriveInTheirOrder) {
  Send({Launch(1, true), Launch(2, false), Launch(3, true), Launch(4, false)});
  v1::CoordinatorMessage message;
  for (uint64_t job = 1; job <= 4;) {
    ASSERT_TRUE(control_->Read(&message));
    if (!message.has_launch()) continue;
    EXPECT_EQ(message.launch().job(), job++);
  }
  context_.TryCancel();
}

}  // namespace
}  // namespace muster::coordinator
