// How jobctl diff and compare tell two jobs' configurations apart.
#include "client/compare/configuration.h"

#include <gtest/gtest.h>

#include "client/compare/report.h"

namespace muster::client {
namespace {

v1::JobRecord JobOf(std::initializer_list<const char*> command) {
  v1::JobRecord record;
  for (const char* word : command) record.mutable_spec()->add_command(word);
  return record;
}

std::string TextOf(const v1::JobRecord& a, const v1::JobRecord& b,
                   const v1::ListNodesResponse& nodes = {}) {
  std::string text;
  for (const ConfigurationDifference& each :
       DifferencesOf(ConfigurationOf(a, nodes), ConfigurationOf(b, nodes))) {
    text += each.field + ": " + each.a.value_or("none") + " | " + each.b.value_or("none") + "\n";
  }
  return text;
}

TEST(ConfigurationTest, EqualJobsDoNotDiffer) {
  const v1::JobRecord job = JobOf({"python", "train.py", "--lr", "1"});
  EXPECT_EQ(TextOf(job, job), "");
}

TEST(ConfigurationTest, OptionsAreComparedOneByOneInAnyOrder) {
  EXPECT_EQ(TextOf(JobOf({"python", "train.py", "--seed", "1", "--lr=2e-3", "--amp", "-1"}),
                   JobOf({"python", "train.py", "--lr", "2e-2", "--seed", "1", "data file"})),
            "argument --amp: -1 | none\n"
            "argument --lr: 2e-3 | 2e-2\n"
            "arguments: none | 'data file'\n");
}

TEST(ConfigurationTest, SecretsAreComparedAndNeverShown) {
  v1::JobRecord a = JobOf({"train"}), b = a;
  (*a.mutable_spec()->mutable_env())["API_TOKEN"] = "one";
  (*b.mutable_spec()->mutable_env())["API_TOKEN"] = "two";
  (*a.mutable_spec()->mutable_env())["SEED"] = "1";
  (*a.mutable_spec()->mutable_env())["SHLVL"] = "1";
  EXPECT_EQ(TextOf(a, b), "env API_TOKEN: (hidden) | (hidden)\nenv SEED: 1 | none\n");
}

TEST(ConfigurationTest, WhatTheNewestAttemptGotIsComparedToo) {
  v1::JobRecord a = JobOf({"train"}), b = a;
  v1::ListNodesResponse nodes;
  for (const auto& [name, model] : {std::pair("n1", "A100"), std::pair("n2", "H100")}) {
    v1::NodeFacts* facts = nodes.add_nodes()->mutable_record()->mutable_facts();
    facts->set_name(name);
    facts->set_version("1.2");
    for (uint32_t index = 0; index < 2; ++index) {
      v1::Device* device = facts->add_devices();
      device->set_kind("gpu");
      device->set_index(index);
      device->set_model(index == 0 ? model : "other");
    }
  }
  for (auto* record : {&a, &b}) {
    v1::Attempt* attempt = record->add_attempts();
    attempt->set_world_size(record == &a ? 1 : 2);
    v1::NodePart* part = attempt->add_parts();
    part->set_node(record == &a ? "n1" : "n2");
    part->set_device_kind("gpu");
    part->set_local_world_size(record == &a ? 1 : 2);
    part->add_device_indexes(0);
  }
  EXPECT_EQ(TextOf(a, b, nodes),
            "device models: A100 | H100\n"
            "nodes: n1 | n2\n"
            "ranks on each node: 1 | 2\n"
            "world size: 1 | 2\n");
}

// What `compare` prints below its tables about two values.
std::string ShownDifference(const std::string& a, const std::string& b) {
  std::string text;
  ComparisonReport report({.format = "table", .print = [&](auto line) { text += line; }}, {});
  const RunDifference run{.run = "b", .fields = {{.field = "arguments", .a = a, .b = b}}};
  EXPECT_TRUE(report.Print({}, {&run, 1}).ok());
  return text.substr(text.find('\n') + 1);
}

TEST(ConfigurationTest, OfLongValuesThePartThatDiffersIsShown) {
  const std::string path = "--data /shared/datasets/imagenet/train/webdataset/shards/version-";
  EXPECT_EQ(ShownDifference(path + "1", path + "2"),
            "  arguments: …shards/version-1 → …shards/version-2\n");
  EXPECT_EQ(ShownDifference("1", "2"), "  arguments: 1 → 2\n");
}

}  // namespace
}  // namespace muster::client
