// Other launchers' command lines: what each becomes, and what is rejected.
#include "client/launchers/launchers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/command_line/errors.h"
#include "common/problem.h"

namespace muster::client {
namespace {

// No variable is set: there is no PATH, so every launcher's Python is python3.
const Environment kNothing = [](std::string_view name) {
  return std::string(name == "HOME" ? "/nonexistent" : "");
};

absl::StatusOr<std::optional<LaunchPlan>> Read(const std::string& line,
                                               const Environment& environment = kNothing) {
  return ReadLauncherLine(absl::StrSplit(line, ' ', absl::SkipEmpty()), environment);
}

LaunchPlan Plan(const std::string& line, const Environment& environment = kNothing) {
  const auto plan = Read(line, environment);
  EXPECT_TRUE(plan.ok()) << line << ": " << plan.status();
  EXPECT_TRUE(plan.ok() && plan->has_value()) << line;
  return plan.ok() && plan->has_value() ? **plan : LaunchPlan{};
}

struct LaunchLine {
  std::string line;
  std::string command;
  uint32_t processes;
  uint32_t per_node;
  uint32_t min_nodes;
  uint32_t max_nodes;
};

TEST(LaunchersTest, EachLineBecomesTheCommandOfOneRankAndAShape) {
  const LaunchLine kLines[] = {
      {"torchrun train.py", "python3 -u train.py", 0, 1, 1, 1},
      {"torchrun --nproc-per-node 2 train.py --lr 1", "python3 -u train.py --lr 1", 0, 2, 1, 1},
      {"torchrun --nproc_per_node=2 --nnodes=1:4 train.py", "python3 -u train.py", 0, 2, 1, 4},
      {"torchrun --standalone --nproc-per-node=4 -m pkg.train x", "python3 -u -m pkg.train x", 0, 4,
       1, 1},
      {"torchrun --nproc-per-node 3 --no-python ./train --nproc-per-node 9",
       "./train --nproc-per-node 9", 0, 3, 1, 1},
      {"torchrun -r 3 -t 3 --nproc-per-node 2 -- train.py", "python3 -u train.py", 0, 2, 1, 1},
      {"/venv/bin/python -W ignore -m torch.distributed.run --nproc-per-node 2 t.py a",
       "/venv/bin/python -W ignore -u t.py a", 0, 2, 1, 1},
      {"python -m torch.distributed.launch --nproc_per_node=2 t.py a",
       "python -u t.py --local-rank=${local_rank} a", 0, 2, 1, 1},
      {"python -m torch.distributed.launch --use-env --nproc_per_node=2 t.py", "python -u t.py", 0,
       2, 1, 1},
      {"torch_npu_run --rdzv-backend parallel --nproc-per-node 8 t.py", "python3 -u t.py", 0, 8, 1,
       1},
      {"accelerate launch --num_processes 2 --cpu t.py x", "python3 t.py x", 2, 0, 0, 0},
      {"accelerate launch --num-processes=8 --num_machines 2 -m pkg", "python3 -m pkg", 8, 0, 2, 2},
      {"accelerate-launch --num_processes 2 --no_python ./t", "./t", 2, 0, 0, 0},
      {"python3 -m accelerate.commands.launch --num_processes 3 t.py", "python3 t.py", 3, 0, 0, 0},
  };
  for (const LaunchLine& line : kLines) {
    const LaunchPlan plan = Plan(line.line);
    EXPECT_EQ(absl::StrJoin(plan.command, " "), line.command) << line.line;
    EXPECT_EQ(plan.processes, line.processes) << line.line;
    EXPECT_EQ(plan.per_node, line.per_node) << line.line;
    EXPECT_EQ(plan.min_nodes, line.min_nodes) << line.line;
    EXPECT_EQ(plan.max_nodes, line.max_nodes) << line.line;
  }
}

TEST(LaunchersTest, OtherCommandsAreLeftAlone) {
  for (const char* line :
       {"python train.py", "python -m pkg.train", "sh -c torchrun", "accelerate config",
        "./torchrun.sh", "python -c torchrun", "python train.py -m torch.distributed.run"}) {
    const auto plan = Read(line);
    ASSERT_TRUE(plan.ok()) << line;
    EXPECT_FALSE(plan->has_value()) << line;
  }
}

TEST(LaunchersTest, WhatStandsBeforeALauncherIsTakenOff) {
  const auto plan = [](const std::vector<std::string>& argv) {
    const auto read = ReadLauncherLine(argv, kNothing);
    EXPECT_TRUE(read.ok() && read->has_value()) << argv[0];
    return read.ok() && read->has_value() ? **read : LaunchPlan{};
  };
  const std::vector<std::vector<std::string>> kLines = {
      {"env", "A=1", "torchrun", "--nproc-per-node", "2", "t.py", "B=2"},
      {"nohup", "env", "A=1", "torchrun", "--nproc-per-node", "2", "t.py", "B=2"},
      {"/bin/bash", "-c", "A=1 exec torchrun --nproc-per-node '2' \"t.py\" B=2"},
      {"sh", "-c", "nohup env A=1 torchrun --nproc-per-node=2 t.py B=2"},
      {"env", "A=1", "python3", "-m", "torch.distributed.run", "--nproc-per-node=2", "t.py", "B=2"},
  };
  for (const std::vector<std::string>& line : kLines) {
    const LaunchPlan taken = plan(line);
    EXPECT_EQ(taken.per_node, 2u) << absl::StrJoin(line, " ");
    EXPECT_EQ(absl::StrJoin(taken.command, " "), "python3 -u t.py B=2");
    EXPECT_EQ(taken.env, (std::map<std::string, std::string>{{"A", "1"}}));
    EXPECT_EQ(DescribePlan(taken).find("nohup has no effect") != std::string::npos,
              absl::StrJoin(line, " ").find("nohup") != std::string::npos);
  }
  // What it assigns is also the launcher's environment.
  EXPECT_EQ(plan({"env", "PET_NPROC_PER_NODE=3", "torchrun", "t.py"}).per_node, 3u);
}

TEST(LaunchersTest, WhatAShellWouldDoMoreWithIsLeftToTheShell) {
  for (const std::vector<std::string>& line :
       std::vector<std::vector<std::string>>{{"bash", "-c", "cd x && torchrun t.py"},
                                             {"bash", "-c", "torchrun $ARGS t.py"},
                                             {"bash", "-c", "torchrun t.py > log"},
                                             {"bash", "-c", "torchrun 't.py"},
                                             {"bash", "-lc", "torchrun t.py"},
                                             {"bash", "-c", "torchrun t.py", "name"},
                                             {"env", "-i", "torchrun", "t.py"},
                                             {"nice", "torchrun", "t.py"}}) {
    const auto read = ReadLauncherLine(line, kNothing);
    ASSERT_TRUE(read.ok()) << line.back();
    EXPECT_FALSE(read->has_value()) << line.back();
    EXPECT_EQ(InnerLauncher(line), "torchrun") << "there is a note instead: " << line.back();
  }
}

TEST(LaunchersTest, OnlyALauncherThatWouldRunIsNoticed) {
  const auto inner = [](const std::string& line) {
    return InnerLauncher(absl::StrSplit(line, '~', absl::SkipEmpty()));
  };
  EXPECT_EQ(inner("mpirun~-np~4~./a"), "mpirun");
  EXPECT_EQ(inner("/opt/bin/deepspeed~t.py"), "deepspeed");
  EXPECT_EQ(inner("uv~run~torchrun~t.py"), "torchrun");
  EXPECT_EQ(inner("conda~run~-n~x~accelerate~launch~t.py"), "accelerate launch");
  EXPECT_EQ(inner("bash~-c~source venv/bin/activate; python -m torch.distributed.run t.py"),
            "torch.distributed.run");
  for (const char* line : {"python~t.py~torchrun", "python~t.py~--launcher~torchrun",
                           "bash~-c~python t.py --launcher torchrun", "./torchrun.sh", "srun.py",
                           "bash~train.sh", "env~A=1~python~t.py"}) {
    EXPECT_EQ(inner(line), "") << line;
  }
}

struct WrongLaunch {
  std::string line;
  std::string code;
  std::string says;
};

TEST(LaunchersTest, WhatCannotBeHonoredIsRefusedByName) {
  const WrongLaunch kWrong[] = {
      {"torchrun --nproc-per-nod 2 t.py", "JC1010", "did you mean \"--nproc-per-node\"?"},
      {"torchrun --nproc-per-node two t.py", "JC1010", "takes a whole number from 1"},
      {"torchrun --nproc-per-node xpu t.py", "JC1011", "xpu devices are not supported"},
      {"torchrun --nnodes 4:1 t.py", "JC1010", "takes N or MIN:MAX"},
      {"torchrun --standalone --nnodes 2 t.py", "JC1010", "means one node"},
      {"torchrun -m --no-python t.py", "JC1011", "are mutually exclusive"},
      {"torchrun --logs-specs x t.py", "JC1011", "--logs-specs of torchrun is not supported"},
      {"torchrun --run-path t.py", "JC1011", "--run-path"},
      {"torchrun --nproc-per-node 2", "JC1010", "names no script"},
      {"torchrun --nproc-per-node", "JC1010", "needs a value"},
      {"accelerate launch --tpu t.py", "JC1011", "--tpu of accelerate launch"},
      {"accelerate launch --env A=1 t.py", "JC1011", "--env"},
      {"accelerate launch --cpu --multi_gpu t.py", "JC1010", "are mutually exclusive"},
      {"accelerate launch --num_processes 1 --num_machines 2 t.py", "JC1010",
       "num_processes is the total"},
      {"accelerate launch --mixed_precision fp7 --num_processes 1 t.py", "JC1010",
       "mixed_precision must be no, fp16"},
      {"accelerate launch --config_file /nonexistent t.py", "JC1012", "cannot be read"},
  };
  for (const WrongLaunch& wrong : kWrong) {
    const auto plan = Read(wrong.line);
    ASSERT_FALSE(plan.ok()) << wrong.line;
    const common::Problem parts = common::ProblemOf(plan.status());
    EXPECT_EQ(parts.code, wrong.code) << parts.what;
    EXPECT_NE(parts.what.find(wrong.says), std::string::npos) << parts.what;
    EXPECT_FALSE(parts.fix.empty());
  }
}

TEST(LaunchersTest, OneLineNamesEverythingThatWasOverridden) {
  const LaunchPlan plan = Plan(
      "torchrun --rdzv-backend c10d --rdzv_endpoint=h:29500 --node-rank 0 --rdzv-id job7 "
      "--nproc-per-node 2 t.py");
  EXPECT_EQ(
      DescribePlan(plan),
      "torchrun: the coordinator decides instead of --rdzv-backend, --rdzv-endpoint, --node-rank");
  EXPECT_EQ(plan.run_id, "job7");
  EXPECT_EQ(DescribePlan(Plan("torchrun --nproc-per-node 2 t.py")), "");
}

TEST(LaunchersTest, TorchrunFlagsReachTheSpec) {
  const LaunchPlan plan = Plan(
      "torchrun --nproc-per-node gpu --max-restarts 3 --role trainer --log-dir /l "
      "--shutdown-timeout 5 "
      "--signals-to-handle SIGTERM --virtual-local-rank t.py");
  EXPECT_EQ(plan.per_node_of, "gpu");
  EXPECT_EQ(plan.device_kind, "gpu");
  EXPECT_EQ(plan.restarts, 3u);
  EXPECT_EQ(plan.role, "trainer");
  EXPECT_EQ(plan.log_dir, "/l");
  EXPECT_EQ(plan.grace_ms, 5000u);
  EXPECT_EQ(plan.env.at("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM");
  EXPECT_TRUE(plan.virtual_local_rank);
}

// Every flag of the parser of torch_npu_run: torch 2.13's get_args_parser, and one of torch_npu 2.13.0.
TEST(LaunchersTest, EveryFlagOfTorchNpuRunIsHonoredOrNoticedOrRefused) {
  struct NpuFlag {
    const char* words;
    const char* fate;  // "honored"; "notice": one names it; otherwise: what refuses it says
  };
  const NpuFlag kFlags[] = {
      {"--nnodes=1:2", "honored"},
      {"--nproc-per-node=8", "honored"},
      {"--nproc_per_node 8", "honored"},
      {"--nproc_per_node=npu", "honored"},
      {"--nproc_per_node=auto", "honored"},
      {"--rdzv-backend=c10d", "notice"},
      {"--rdzv_endpoint=h:29500", "notice"},
      {"--rdzv-id=7", "honored"},
      {"--rdzv-conf=timeout=900", "notice"},
      {"--standalone", "honored"},
      {"--max-restarts=3", "honored"},
      {"--monitor-interval=5", "notice"},
      {"--start-method=spawn", "notice"},
      {"--event-log-handler=null", "notice"},
      {"--role=trainer", "honored"},
      {"-m", "honored"},
      {"--module", "honored"},
      {"--no-python", "honored"},
      {"--run-path", "is not supported"},
      {"--log-dir=/logs", "honored"},
      {"-r 3", "notice"},
      {"--redirects=3", "notice"},
      {"-t 3", "notice"},
      {"--tee=3", "notice"},
      {"--local-ranks-filter=0", "notice"},
      {"--duplicate-stdout-filters=x", "notice"},
      {"--duplicate-stderr-filters=x", "notice"},
      {"--log-line-prefix-template=x", "notice"},
      {"--node-rank=1", "notice"},
      {"--node_rank 1", "notice"},
      {"--master-addr=10.0.0.1", "notice"},
      {"--master_port=29501", "notice"},
      {"--local-addr=10.0.0.2", "notice"},
      {"--logs-specs=x", "is not supported"},
      {"--numa-binding=node", "is not supported"},
      {"--signals-to-handle=SIGTERM", "honored"},
      {"--shutdown-timeout=30", "honored"},
      {"--virtual-local-rank", "honored"},
      {"--enable_tiered_parallel_tcpstore=true", "notice"},
      {"--enable_tiered_parallel_tcpstore true", "notice"},
      {"-h", "is not supported"},
      {"--help", "is not supported"},
  };
  for (const char* launcher : {"torch_npu_run", "python3 -m torch_npu.distributed.run"}) {
    for (const NpuFlag& flag : kFlags) {
      const std::string line = std::string(launcher) + " " + flag.words + " t.py";
      const auto plan = Read(line);
      const std::string fate = flag.fate;
      if (fate == "honored" || fate == "notice") {
        ASSERT_TRUE(plan.ok() && plan->has_value()) << line << ": " << plan.status();
        EXPECT_EQ(DescribePlan(**plan).empty(), fate == "honored") << line;
        EXPECT_EQ((*plan)->device_kind, "npu") << line;
        EXPECT_EQ((*plan)->command.back(), "t.py") << line;
        continue;
      }
      ASSERT_FALSE(plan.ok()) << line;
      EXPECT_NE(common::ProblemOf(plan.status()).what.find(fate), std::string::npos) << line;
      EXPECT_FALSE(common::ProblemOf(plan.status()).fix.empty()) << line;
    }
  }
  EXPECT_FALSE(Read("torchrun --enable_tiered_parallel_tcpstore=true t.py").ok());
  EXPECT_EQ(Plan("torch_npu_run --nproc_per_node cpu t.py").device_kind, "cpu");
}

TEST(LaunchersTest, PetVariablesCountUnlessTheLineSaysOtherwise) {
  const Environment pet = [](std::string_view name) {
    return std::string(name == "PET_NPROC_PER_NODE" ? "4" : name == "PET_NNODES" ? "2" : "");
  };
  EXPECT_EQ(Plan("torchrun t.py", pet).per_node, 4u);
  EXPECT_EQ(Plan("torchrun --nproc-per-node 3 t.py", pet).per_node, 3u);
  EXPECT_EQ(Plan("torchrun t.py", pet).min_nodes, 2u);
}

TEST(LaunchersTest, AccelerateFlagsBecomeItsEnvironment) {
  const LaunchPlan plan = Plan(
      "accelerate launch --num_processes 2 --cpu --mixed_precision bf16 "
      "--num_cpu_threads_per_process 4 --debug "
      "--dynamo_backend inductor t.py");
  EXPECT_EQ(plan.device_kind, "cpu");
  EXPECT_EQ(plan.env.at("ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_EQ(plan.env.at("ACCELERATE_DYNAMO_BACKEND"), "INDUCTOR");
  EXPECT_EQ(plan.env.at("ACCELERATE_USE_CPU"), "True");
  EXPECT_EQ(plan.env.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(plan.env.at("ACCELERATE_DEBUG_MODE"), "true");
  const LaunchPlan fsdp = Plan(
      "accelerate launch --num_processes 2 --use_fsdp --fsdp_version 2 "
      "--fsdp_transformer_layer_cls_to_wrap Block t.py");
  EXPECT_EQ(fsdp.env.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(fsdp.env.at("FSDP_VERSION"), "2");
  EXPECT_EQ(fsdp.env.at("FSDP_TRANSFORMER_CLS_TO_WRAP"), "Block");
}

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/launchers.XXXXXX";
    directory_ = mkdtemp(path);
  }
  void TearDown() override {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(directory_.c_str());
  }
  std::string Write(const std::string& name, const std::string& text) {
    files_.push_back(directory_ + "/" + name);
    std::ofstream(files_.back()) << text;
    chmod(files_.back().c_str(), 0755);
    return files_.back();
  }
  std::string directory_;
  std::vector<std::string> files_;
};

TEST_F(FilesTest, ThePythonIsTheOneOfTheLaunchersFirstLine) {
  const std::string plain = Write("torchrun", "#!/opt/venv/bin/python3.11\nimport sys\n");
  EXPECT_EQ(PythonOf(plain, kNothing), "/opt/venv/bin/python3.11");
  const std::string env = Write("env-launcher", "#!/usr/bin/env python3\n");
  EXPECT_EQ(PythonOf(env, kNothing), "python3");
  const std::string longest =
      Write("long", "#!/bin/sh\n'''exec' \"/very long/bin/python\" \"$0\" \"$@\"\n' '''\n");
  EXPECT_EQ(PythonOf(longest, kNothing), "/very long/bin/python");
  EXPECT_EQ(PythonOf("/nonexistent/torchrun", kNothing), "python3");
}

TEST_F(FilesTest, AccelerateConfigurationGivesTheDefaults) {
  const std::string config =
      Write("default_config.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\n"
            "num_processes: 4\nnum_machines: 1\nmixed_precision: 'no'\nuse_cpu: yes\n"
            "main_process_port: 29501\nmachine_rank: 0\nrdzv_backend: static\n");
  const LaunchPlan plan = Plan("accelerate launch --config_file " + config + " t.py");
  EXPECT_EQ(plan.processes, 4u);
  EXPECT_EQ(plan.device_kind, "cpu");
  EXPECT_NE(DescribePlan(plan).find("main_process_port, machine_rank, rdzv_backend"),
            std::string::npos);
  EXPECT_EQ(Plan("accelerate launch --num_processes 2 --config_file " + config + " t.py").processes,
            2u);
  const auto direct = PlanFromAccelerateConfig(config, {"./train"}, kNothing);
  ASSERT_TRUE(direct.ok()) << direct.status();
  EXPECT_EQ(direct->processes, 4u);
  EXPECT_EQ(direct->command, std::vector<std::string>{"./train"});
}

TEST_F(FilesTest, AccelerateConfigurationMayBeJsonAndHasPrefixesOrNot) {
  const std::string config =
      Write("c.json",
            "{\"distributed_type\": \"FSDP\", \"num_processes\": 2, \"fsdp_config\": "
            "{\"fsdp_version\": 2, \"offload_params\": false}}");
  const LaunchPlan plan = Plan("accelerate launch --config_file " + config + " t.py");
  EXPECT_EQ(plan.env.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(plan.env.at("FSDP_VERSION"), "2");
  EXPECT_EQ(plan.env.at("FSDP_OFFLOAD_PARAMS"), "false");
}

TEST_F(FilesTest, UnsupportedConfigurationsAreRefused) {
  const auto error = [&](const std::string& text) {
    return common::ProblemOf(
               Read("accelerate launch --config_file " + Write("bad.yaml", text) + " t.py")
                   .status())
        .what;
  };
  EXPECT_NE(error("distributed_type: XLA\n").find(":1:19: distributed_type XLA is not supported"),
            std::string::npos);
  EXPECT_NE(error("num_processes: 2\n").find("the key distributed_type is missing"),
            std::string::npos);
  EXPECT_NE(error("distributed_type: NO\ncompute_environment: AMAZON_SAGEMAKER\n")
                .find("is not supported"),
            std::string::npos);
  EXPECT_NE(error("a: b: c\n").find("not valid YAML"), std::string::npos);
}

}  // namespace
}  // namespace muster::client
