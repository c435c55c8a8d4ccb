// What a spec and a peer may send, whichever client it is.
#include <gtest/gtest.h>

#include "common/job/validate.h"
#include "common/version.h"
#include "coordinator/core/decide.h"

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
  return DecideSubmit(ClusterState(), input, Now()).reply.status;
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
