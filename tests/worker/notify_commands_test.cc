// Commands of `notify`: what they see, what is kept of them, and that a repeated order runs once.
#include "worker/exec/notify_commands.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <future>

#include "common/files/files.h"
#include "worker/base/bounded_command.h"

namespace muster::worker {
namespace {

v1::RunNotify Order(const std::string& script) {
  v1::RunNotify order;
  order.set_job(7);
  order.set_delivery("c-7-0");
  for (const std::string& word : {std::string("sh"), std::string("-c"), script})
    order.add_command(word);
  order.set_workdir("/tmp");
  (*order.mutable_env())["COLOR"] = "red";
  (*order.mutable_env())["MUSTER_JOB_ID"] = "an outer job's";
  (*order.mutable_told())["MUSTER_EVENT"] = "end";
  return order;
}

// Answers come one at a time.
class NotifyCommandsTest : public ::testing::Test {
 protected:
  v1::NotifyEnded Answer() {
    v1::NotifyEnded ended = answer_.get_future().get();
    answer_ = {};
    commands_.Ended(ended);
    return ended;
  }

  std::promise<v1::NotifyEnded> answer_;
  NotifyCommands commands_{{.node = "node1", .device_kinds = {"gpu"}},
                           [this](v1::NotifyEnded ended) { answer_.set_value(std::move(ended)); }};
};

TEST_F(NotifyCommandsTest, RunsAsTheJobWithWhatItIsTold) {
  EXPECT_FALSE(commands_
                   .Run(Order("echo $COLOR $MUSTER_EVENT $PWD [$MUSTER_JOB_ID] "
                              "[${CUDA_VISIBLE_DEVICES-unset}]; echo late >&2; exit 3"))
                   .has_value());
  const v1::NotifyEnded ended = Answer();
  EXPECT_EQ(ended.delivery(), "c-7-0");
  EXPECT_EQ(ended.problem(), "it exited with 3");
  EXPECT_EQ(ended.output(), "red end /tmp [] []\nlate\n");
}

TEST_F(NotifyCommandsTest, ARepeatedOrderGetsTheAnswerOfTheFirst) {
  const std::string file = testing::TempDir() + "/notify-ran";
  unlink(file.c_str());
  const v1::RunNotify order = Order("echo x >> " + file + "; echo done");
  commands_.Run(order);
  EXPECT_FALSE(commands_.Run(order).has_value()) << "it runs, or is still to be told";
  EXPECT_EQ(Answer().problem(), "");
  const auto again = commands_.Run(order);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->output(), "done\n");
  EXPECT_EQ(*common::ReadFile(file), "x\n");
}

TEST_F(NotifyCommandsTest, WhatCannotBeStartedIsAnAnswer) {
  v1::RunNotify order = Order("");
  order.set_command(0, "no-such-program");
  commands_.Run(order);
  EXPECT_NE(Answer().problem().find("no-such-program"), std::string::npos);
  order = Order("true");
  order.set_delivery("c-7-1");
  order.set_workdir("/no/such/directory");
  commands_.Run(order);
  EXPECT_NE(Answer().problem().find("/no/such/directory"), std::string::npos);
}

TEST_F(NotifyCommandsTest, AStopKillsWhatRunsAndSaysNothing) {
  commands_.Run(Order("exec sleep 1000"));
  EXPECT_TRUE(commands_.Shutdown(std::chrono::seconds(30)));
  EXPECT_EQ(answer_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST(BoundedCommandGroupTest, WhatACommandLeavesBehindIsKilledToo) {
  const std::string file = testing::TempDir() + "/left-behind";
  unlink(file.c_str());
  const CommandOutput output =
      RunBounded({.program = "/bin/sh",
                  .argv = {"sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $! > " + file},
                  .env = {"PATH=/usr/bin:/bin"},
                  .workdir = "/tmp",
                  .timeout_ms = 60'000,
                  .bytes_max = 100});
  EXPECT_EQ(output.problem, "");
  const common::UniqueFd left(
      static_cast<int>(syscall(SYS_pidfd_open, std::stoi(*common::ReadFile(file)), 0)));
  if (!left.valid()) return;  // gone already
  pollfd ended{left.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 30'000), 1);
}

}  // namespace
}  // namespace muster::worker
