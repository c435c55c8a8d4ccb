// Calls with their entry in the audit: what the caller is told when its disk fails.
#include "coordinator/calls/audited.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <future>
#include <string>

#include "common/files/files.h"
#include "common/problem.h"
#include "coordinator/local/audit_files.h"
#include "muster/v1/job_service.pb.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/coordinator/workers_daemon.h"

namespace muster::coordinator {
namespace {

using common::Action;
using common::Object;

const AuditedCall kSetUser{*common::FindCall("JobService", "SetUser")};
constexpr common::Call kAny{"JobService", "X", Action::kAdminister, Object::kNode,
                            common::Cost::kSmall};

class AuditedTest : public testing::Test {
 protected:
  // SetUser by an administrator; `made`: what the call itself comes to.
  absl::Status SetUser(const absl::StatusOr<v1::User>& made) {
    v1::SetUserRequest request;
    std::promise<absl::Status> told;
    RunAuditedAs<v1::User>(
        coordinator_.daemon().access, kSetUser, {.principal = "user:root"}, request,
        [&](const absl::StatusOr<v1::User>& answer) { told.set_value(answer.status()); },
        [&](const Answer<v1::User>& answer) {
          ++runs_;
          answer(made);
        });
    return told.get_future().get();
  }

  const TempDir temp_;
  const std::string directory_ = temp_.path() + "/audit";
  WorkersDaemon coordinator_{temp_.path(), directory_};
  int runs_ = 0;
};

TEST_F(AuditedTest, AChangeWhoseEntryCannotBeWrittenIsNotAnsweredAsIfItWere) {
  ASSERT_EQ(rename(directory_.c_str(), (directory_ + "-away").c_str()), 0);
  EXPECT_EQ(common::CodeOf(SetUser(v1::User())), "JC1344");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(common::CodeOf(SetUser(v1::User())), "JC1336");
  EXPECT_EQ(runs_, 1) << "nothing more is changed";
  ASSERT_EQ(rename((directory_ + "-away").c_str(), directory_.c_str()), 0);
  while (common::CodeOf(SetUser(v1::User())) == "JC1336") {
  }
  EXPECT_EQ(runs_, 2);
  const auto files = ListAuditFiles(directory_);
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ(ReadAuditFile(files->front())->entries.size(), 2u) << "the first one is there, too";
}

TEST_F(AuditedTest, ACallThatChangedNothingIsAnsweredWithItsOwnError) {
  ASSERT_EQ(rename(directory_.c_str(), (directory_ + "-away").c_str()), 0);
  EXPECT_TRUE(absl::IsNotFound(SetUser(absl::NotFoundError("no such user"))));
  ASSERT_EQ(rename((directory_ + "-away").c_str(), directory_.c_str()), 0);
}

TEST(AuditEntryTest, WhatDecidesIsPartOfIt) {
  const auto object = [](const google::protobuf::Message& request) {
    return EntryOf({kAny}, {.principal = "user:root"}, request).object();
  };
  v1::DrainNodeRequest drain;
  drain.set_node("node3");
  EXPECT_EQ(object(drain), "node3 drain=false");
  drain.set_drain(true);
  EXPECT_EQ(object(drain), "node3 drain=true");
  v1::SetUserRequest user;
  user.set_name("alice");
  EXPECT_EQ(object(user), "alice");
  user.set_disabled(false);
  user.set_role(v1::ROLE_OPERATOR);
  EXPECT_EQ(object(user), "alice disabled=false role=ROLE_OPERATOR");
  v1::SignalJobRequest signal;
  signal.set_job("red-fox-1");
  signal.set_signal(9);
  EXPECT_EQ(object(signal), "red-fox-1 signal=9");
}

}  // namespace
}  // namespace muster::coordinator
