// What a trainer says that it needs: its line among others, its time, and whether the devices have it.
#include "client/submit/plan_estimate.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::client {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(PlanEstimateTest, TheLineIsFoundAmongWhatElseAProgramPrints) {
  EXPECT_EQ(FindEstimate("loading\n{\"a\": 1}\n{\"muster_estimate\": 1, \"bytes_per_rank\": 12}\n"),
            12u);
  for (const std::string& output :
       {std::string(),
        std::string("{\"muster_estimate\": 1, \"bytes_per_rank\": 12}"),  // not whole
        std::string("{\"muster_estimate\": 2, \"bytes_per_rank\": 12}\n"),
        std::string("{\"muster_estimate\": 1}\n"),
        std::string("{\"muster_estimate\": 1, \"bytes_per_rank\": 0}\n"),
        std::string("{\"muster_estimate\": 1, \"bytes_per_rank\": -1}\n"),
        std::string("{\"muster_estimate\": 1, \"bytes_per_rank\": 1e99}\n"),
        std::string("{\"muster_estimate\": 1, \"bytes_per_rank\": 99999999999999999999}\n"),
        std::string("{\"muster_estimate\": 1, \"bytes_per_rank\": \"12\"}\n"),
        std::string("[\"muster_estimate\"]\n"), std::string("{\"muster_estimate\"\n")}) {
    EXPECT_FALSE(FindEstimate(output).has_value()) << output;
  }
}

v1::JobSpec Script(const std::string& script) {
  v1::JobSpec spec;
  for (const std::string& word : {std::string("sh"), std::string("-c"), script})
    spec.add_command(word);
  spec.set_workdir("/tmp");
  (*spec.mutable_env())["PATH"] = "/usr/bin:/bin";
  return spec;
}

TEST(PlanEstimateTest, TheProgramIsAskedAsRankZeroAndNeedsNotEnd) {
  const auto asked = AskTrainer(
      Script("echo \"{\\\"muster_estimate\\\": $MUSTER_ESTIMATE, \\\"bytes_per_rank\\\": "
             "1$RANK$WORLD_SIZE}\"; exec sleep 1000"),
      8);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(*asked, 108u);
}

TEST(PlanEstimateTest, AProgramWithoutAnEstimateSaysWhy) {
  EXPECT_NE(AskTrainer(Script("echo training"), 1).status().message().find("ended without"),
            absl::string_view::npos);
  EXPECT_NE(AskTrainer(Script("exec sleep 1000"), 1, std::chrono::milliseconds(50))
                .status()
                .message()
                .find("no estimate within"),
            absl::string_view::npos);
  v1::JobSpec missing = Script("");
  missing.set_command(0, "no-such-program");
  EXPECT_NE(AskTrainer(missing, 1).status().message().find("no-such-program cannot be started"),
            absl::string_view::npos);
}

TEST(PlanEstimateTest, TheSmallestShareDecides) {
  v1::ListNodesResponse nodes;
  v1::Attempt attempt;
  for (const auto& [name, gib] : {std::pair("node1", 80), std::pair("node2", 40)}) {
    v1::NodeFacts& facts = *nodes.add_nodes()->mutable_record()->mutable_facts();
    facts.set_name(name);
    facts.set_memory_bytes(64 * kGiB);
    v1::Device& device = *facts.add_devices();
    device.set_kind("gpu");
    device.set_memory_bytes(static_cast<uint64_t>(gib) * kGiB);
    v1::NodePart& part = *attempt.add_parts();
    part.set_node(name);
    part.set_device_kind("gpu");
    part.add_device_indexes(0);
    part.set_local_world_size(1);
  }
  EXPECT_TRUE(JudgeMemory(30 * kGiB, attempt, nodes).fits);
  const MemoryVerdict too_much = JudgeMemory(50 * kGiB, attempt, nodes);
  EXPECT_FALSE(too_much.fits);
  EXPECT_NE(too_much.text.find("does not fit: a rank on node2 has"), std::string::npos)
      << too_much.text;
  // Ranks on cpu slots share the node's memory.
  attempt.mutable_parts(0)->set_device_kind("cpu");
  attempt.mutable_parts(0)->set_local_world_size(4);
  EXPECT_NE(JudgeMemory(30 * kGiB, attempt, nodes).text.find("a rank on node1"), std::string::npos);
  EXPECT_TRUE(JudgeMemory(30 * kGiB, v1::Attempt(), nodes).fits) << "it has no place yet";
}

}  // namespace
}  // namespace muster::client
