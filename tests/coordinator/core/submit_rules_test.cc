// What a spec and a peer may say, whatever client sends it.
#include <gtest/gtest.h>

#include "common/version.h"
#include "coordinator/core/decide.h"

namespace muster::coordinator {
namespace {

absl::Status JudgeName(const std::string& name) {
  v1::JobSpec spec;
  spec.add_command("true");
  spec.mutable_shape()->set_processes(1);
  spec.set_name(name);
  return ValidateSpec(spec);
}

TEST(SubmitRulesTest, ANameSteersNoPath) {
  for (const char* name : {"", "train-small", "grün", "v1.2"}) {
    EXPECT_TRUE(JudgeName(name).ok()) << name << JudgeName(name);
  }
  for (const char* name :
       {"a/b", "/etc", ".", "..", "../up", ".ssh", "a\nb", "a\u202Eb", "\uFEFFa"}) {
    const absl::Status judged = JudgeName(name);
    EXPECT_EQ(judged.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(judged.message().find("[JC1103]"), 0u) << judged;
    EXPECT_NE(judged.message().find("; fix: "), absl::string_view::npos) << judged;
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
