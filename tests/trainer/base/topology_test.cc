// A process's rank and world, read from the environment.
#include "muster/base/topology.h"

#include <gtest/gtest.h>

#include <map>

#include "muster/base/errors.h"

namespace muster {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Topology topology_of(const Variables& variables) {
  return Topology::from_environment(lookup_in(variables));
}

std::string error_of(const Variables& variables) {
  try {
    topology_of(variables);
  } catch (const TopologyError& error) {
    return error.what();
  }
  return "no error";
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "5"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"GROUP_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "10.0.0.7"},
                             {"MASTER_PORT", "29501"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

TEST(Topology, IsOneProcessAloneWithoutVariables) {
  const Topology topology = topology_of({});
  EXPECT_EQ(topology.rank, 0);
  EXPECT_EQ(topology.world_size, 1);
  EXPECT_EQ(topology.local_world_size, 1);
  EXPECT_FALSE(topology.agent_store);
}

TEST(Topology, ReadsAllOfTorchrunsVariables) {
  const Topology topology = topology_of(kTorchrun);
  EXPECT_EQ(topology.rank, 3);
  EXPECT_EQ(topology.world_size, 5);
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.node_count, 2);
  EXPECT_EQ(topology.master_addr, "10.0.0.7");
  EXPECT_EQ(topology.master_port, 29501);
  EXPECT_TRUE(topology.agent_store);
  EXPECT_EQ(topology.restart_count, 2);
}

TEST(Topology, TakesAllRanksToBeOnThisNodeWhenOnlyRankAndSizeAreSet) {
  const Topology topology = topology_of(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.node_count, 1);
}

TEST(Topology, RefusesWhatIsNotANumberAndNamesIt) {
  Variables variables = kTorchrun;
  variables["RANK"] = "two";
  EXPECT_NE(error_of(variables).find("RANK='two' is not a whole number"), std::string::npos);
  variables["RANK"] = "1x";
  EXPECT_NE(error_of(variables).find("RANK='1x'"), std::string::npos);
  variables = kTorchrun;
  variables["MASTER_PORT"] = "70000";
  EXPECT_NE(error_of(variables).find("MASTER_PORT='70000'"), std::string::npos);
}

TEST(Topology, RefusesVariablesThatContradictEachOther) {
  Variables variables = kTorchrun;
  variables["RANK"] = "5";
  EXPECT_EQ(error_of(variables), "RANK=5 must be smaller than WORLD_SIZE=5");
  variables = kTorchrun;
  variables["LOCAL_RANK"] = "2";
  EXPECT_EQ(error_of(variables), "LOCAL_RANK=2 must be smaller than LOCAL_WORLD_SIZE=2");
  EXPECT_NE(error_of({{"RANK", "0"}}).find("WORLD_SIZE is not"), std::string::npos);
}

TEST(Topology, NeedsAMasterWhenThereAreOtherRanks) {
  EXPECT_NE(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR and MASTER_PORT"),
            std::string::npos);
  EXPECT_EQ(topology_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(WorkerEnvironment, ReadsMustersVariables) {
  const Variables variables = {{"MUSTER_JOB_ID", "42"},
                               {"MUSTER_ATTEMPT", "1"},
                               {"MUSTER_SOCKET", "/run/s"},
                               {"MUSTER_CHECKPOINT_DIR", "/c"},
                               {"MUSTER_RESUME_FROM", "/r/step-5"}};
  const WorkerEnvironment worker = WorkerEnvironment::from_environment(lookup_in(variables));
  EXPECT_EQ(worker.job, 42);
  EXPECT_EQ(worker.attempt, 1);
  EXPECT_EQ(worker.socket_path, "/run/s");
  EXPECT_EQ(worker.checkpoint_dir, "/c");
  EXPECT_EQ(worker.resume_from, "/r/step-5");
}

}  // namespace
}  // namespace muster
