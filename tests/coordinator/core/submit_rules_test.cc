// What a spec and a peer may send, whichever client it is.
#include <gtest/gtest.h>

#include "common/base/version.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/holdings.h"
#include "coordinator/core/state/spec_hash.h"

namespace muster::coordinator {
namespace {

v1::JobSpec Good() {
  v1::JobSpec spec;
  spec.add_command("true");
  spec.set_workdir("/");
  spec.mutable_shape()->set_processes(1);
  spec.mutable_shape()->mutable_device()->set_kind("cpu");
  return spec;
}

// What a coordinator without nodes answers to a request, whichever program sends it.
absl::Status Submitted(const v1::JobSpec& spec) {
  SubmitInput input;
  *input.request.mutable_spec() = spec;
  input.request.set_queue_anyway(true);
  return DecideOn(ClusterState(), input, Now()).reply.status;
}

TEST(SubmitRulesTest, ARawRequestGetsTheAnswerThatJobctlGivesBeforeItSends) {
  const std::pair<const char*, void (*)(v1::JobSpec&)> kBad[] = {
      {"JC1102", [](auto& spec) { (*spec.mutable_env())["A"] = std::string(300'000, 'x'); }},
      {"JC1103", [](auto& spec) { spec.set_name("../up"); }},
      {"JC1103", [](auto& spec) { spec.set_name("42"); }},
      {"JC1103", [](auto& spec) { spec.set_name("a b"); }},
      {"JC1104", [](auto& spec) { spec.mutable_shape()->set_per_node(2); }},
      {"JC1104", [](auto& spec) { spec.mutable_shape()->set_max_nodes(4); }},
      {"JC1104", [](auto& spec) { spec.mutable_shape()->mutable_device()->set_kind("abacus"); }},
      {"JC1105", [](auto& spec) { spec.clear_command(); }},
      {"JC1106", [](auto& spec) { (*spec.mutable_env())["A\nB"] = "1"; }},
      {"JC1107", [](auto& spec) { spec.set_workdir("here"); }},
      {"JC1108", [](auto& spec) { spec.add_command(std::string("a\0b", 3)); }},
      {"JC1108", [](auto& spec) { spec.set_priority(2'000'000); }},
      {"JC1108", [](auto& spec) { spec.set_stop_after_ms(1); }},
      {"JC1108", [](auto& spec) { spec.mutable_checkpoint()->set_keep(20'000); }},
      {"JC1108", [](auto& spec) { spec.add_notify(); }},
      {"JC1108", [](auto& spec) { spec.add_notify()->add_command(""); }},
      {"JC1108", [](auto& spec) { spec.add_notify()->add_command(std::string("a\0b", 3)); }},
      {"JC1108",
       [](auto& spec) {
         spec.add_notify()->set_webhook("https://a/");
         spec.mutable_notify(0)->add_command("mail");
       }},
      {"JC1108",
       [](auto& spec) {
         spec.add_notify()->add_command("mail");
         spec.mutable_notify(0)->add_on(static_cast<v1::NotifyOn>(9));
       }},
  };
  EXPECT_TRUE(Submitted(Good()).ok()) << Submitted(Good());
  for (const auto& [code, change] : kBad) {
    v1::JobSpec spec = Good();
    change(spec);
    const absl::Status answer = Submitted(spec);
    EXPECT_EQ(answer, job::Validate(spec));
    EXPECT_EQ(std::string(answer.message()).substr(1, 6), code) << answer;
  }
}

TEST(SubmitRulesTest, AJobThatWasHashedWithoutAKeyIsStillTheSame) {
  ClusterState state;
  SubmitInput input;
  *input.request.mutable_spec() = Good();
  input.request.set_queue_anyway(true);
  input.request.set_idempotency_key("nightly");
  for (const v1::Event& fact : DecideOn(state, input, Now()).facts) Apply(state, fact, Now());
  input.sent = {.keyed = 7, .plain = HashSpec(Good()), .as_020 = 9};
  EXPECT_TRUE(DecideOn(state, input, Now()).reply.submit.existed());
  input.sent->plain = 8;
  EXPECT_EQ(common::CodeOf(DecideOn(state, input, Now()).reply.status), "JC1205");
}

TEST(SubmitRulesTest, KeysAndSharesAreThePersonsNotTheNames) {
  ClusterState state;
  SubmitInput input;
  input.caller = {.principal = "user:alice", .role = v1::ROLE_USER, .from = "", .serial = ""};
  *input.request.mutable_spec() = Good();
  input.request.set_queue_anyway(true);
  input.request.set_idempotency_key("nightly");
  std::vector<uint64_t> jobs;
  for (const char* id : {"", "5f0c", "77aa"}) {  // "": as 0.2.0 recorded her
    input.caller.user_id = id;
    Decision decision = DecideOn(state, input, Now());
    ASSERT_TRUE(decision.reply.status.ok()) << decision.reply.status;
    EXPECT_FALSE(decision.reply.submit.existed()) << id;
    for (const v1::Event& fact : decision.facts) Apply(state, fact, Now());
    jobs.push_back(decision.reply.submit.job());
    EXPECT_TRUE(DecideOn(state, input, Now()).reply.submit.existed()) << id;
    EXPECT_EQ(NewestOf(state, input.caller), jobs.back());
  }
  EXPECT_EQ(state.holdings.owners.size(), 3u);
  ClusterState again;
  RestoreSnapshot(again, MakeSnapshot(state), Now());
  input.caller.user_id = "5f0c";
  EXPECT_EQ(DecideOn(again, input, Now()).reply.submit.job(), jobs[1]);
  v1::Event removed;
  removed.mutable_job_removed()->set_owner("user:alice");
  removed.mutable_job_removed()->set_owner_id("5f0c");
  removed.mutable_job_removed()->set_idempotency_key("nightly");
  Apply(again, removed, Now());
  EXPECT_FALSE(DecideOn(again, input, Now()).reply.submit.existed());
  input.caller.user_id = "77aa";
  EXPECT_EQ(DecideOn(again, input, Now()).reply.submit.job(), jobs[2]);
}

TEST(SubmitRulesTest, TheCoordinatorIsUpgradedFirst) {
  for (uint32_t protocol = common::kProtocolMin; protocol <= common::kProtocol; ++protocol) {
    EXPECT_TRUE(JudgeProtocol("jobctl", "1.0", protocol).ok());
  }
  const absl::Status older = JudgeProtocol("jobctl", "\033[2J", common::kProtocolMin - 1);
  EXPECT_EQ(older.message().find("[JC1302] jobctl \\x1b[2J speaks protocol"), 0u) << older;
  const absl::Status newer = JudgeProtocol("muster-worker", "9.9", common::kProtocol + 1);
  EXPECT_NE(newer.message().find("fix: upgrade the coordinator first"), absl::string_view::npos)
      << newer;
}

}  // namespace
}  // namespace muster::coordinator
