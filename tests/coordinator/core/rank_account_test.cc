// What a worker is told of a job's owner, and what it may tell of how it isolates ranks.
#include <gtest/gtest.h>

#include <string>

#include "common/base/limits.h"
#include "common/problem.h"
#include "coordinator/core/decide/commands.h"
#include "coordinator/core/decide/node_facts.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/turn.h"

namespace muster::coordinator {
namespace {

v1::JobRecord AlicesJob() {
  v1::JobRecord job;
  job.set_id(7);
  job.set_owner("user:alice");
  job.set_account("al");
  job.mutable_spec()->add_command("train");
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_resume_step(-1);
  attempt.add_parts()->set_node("n1");
  return job;
}

std::vector<Command> CommandsOf(const v1::JobRecord& job) {
  ClusterState state;
  state.jobs.Add(7) = job;
  state.live_parts.Add(7, job.attempts(0));
  state.nodes["n1"].record.mutable_facts()->set_name("n1");
  v1::Event event;
  event.set_job(7);
  event.mutable_attempt_started();
  return CommandsFor(state, event);
}

TEST(RankAccounts, TheCheckAndTheLaunchNameOwnerAndAccount) {
  v1::JobRecord job = AlicesJob();
  std::vector<Command> commands = CommandsOf(job);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].message.prepare().owner(), "user:alice");
  EXPECT_EQ(commands[0].message.prepare().account(), "al");
  job.mutable_attempts(0)->mutable_parts(0)->set_ready(true);
  commands = CommandsOf(job);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].message.launch().owner(), "user:alice");
  EXPECT_EQ(commands[0].message.launch().account(), "al");
}

TEST(RankAccounts, AJobKeepsTheAccountThatItsOwnerHadWhenItWasSubmitted) {
  SubmitInput submit;
  submit.caller.principal = "user:alice";
  submit.account = "al";
  submit.request.set_queue_anyway(true);
  v1::JobSpec& spec = *submit.request.mutable_spec();
  spec.add_command("train");
  spec.set_workdir("/");
  spec.mutable_shape()->set_processes(1);
  spec.mutable_shape()->mutable_device()->set_kind("cpu");
  Input input = submit;
  ClusterState state;
  TakeTurn(state, {&input, 1}, {1, 1});
  ASSERT_TRUE(state.jobs.contains(1));
  EXPECT_EQ(state.jobs.at(1).owner(), "user:alice");
  EXPECT_EQ(state.jobs.at(1).account(), "al");
}

TEST(RankAccounts, FactsAboutIsolationAreBounded) {
  v1::NodeFacts good;
  good.set_name("n1");
  good.mutable_isolation()->set_level("sandbox");
  good.mutable_isolation()->set_run_as("owner");
  good.mutable_isolation()->add_means("seccomp");
  good.mutable_isolation()->add_lacks("private /tmp: Operation not permitted");
  EXPECT_TRUE(JudgeFacts(good).ok());

  v1::NodeFacts facts = good;
  facts.mutable_isolation()->set_run_as(std::string(common::kFactBytesMax + 1, 'x'));
  EXPECT_EQ(common::CodeOf(JudgeFacts(facts)), "JC1408");
  facts = good;
  facts.mutable_isolation()->set_level("a\nb");
  EXPECT_EQ(common::CodeOf(JudgeFacts(facts)), "JC1408");
  facts = good;
  facts.mutable_isolation()->add_lacks(std::string(common::kFactBytesMax + 1, 'x'));
  EXPECT_EQ(common::CodeOf(JudgeFacts(facts)), "JC1408");
  facts = good;
  for (int i = 0; i < 40; ++i) facts.mutable_isolation()->add_means("x");
  EXPECT_EQ(common::CodeOf(JudgeFacts(facts)), "JC1408");
  facts = good;
  facts.add_devices()->set_address("192.168.1.10");
  EXPECT_TRUE(JudgeFacts(facts).ok());
  facts.mutable_devices(0)->set_address("node1\n");
  EXPECT_EQ(common::CodeOf(JudgeFacts(facts)), "JC1408");
}

}  // namespace
}  // namespace muster::coordinator
