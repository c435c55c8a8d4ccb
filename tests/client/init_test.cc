// Other launchers' files as job files: what is taken over, what is named, what is refused.
#include <gtest/gtest.h>

#include <string>

#include "client/job_file/job_file.h"
#include "client/launchers/job_draft.h"
#include "client/launchers/launch_script.h"
#include "common/problem.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

std::string NoVariable(std::string_view) { return ""; }
uint32_t EightOfEach(const std::string&) { return 8; }

struct Taken {
  absl::Status status;
  JobDraft draft;
  std::string file;   // without comment lines
  std::string notes;  // of left_out, joined by " | "
};

Taken Finish(absl::Status status, JobDraft draft) {
  Taken taken{std::move(status), std::move(draft), "", ""};
  for (const std::string& each : taken.draft.left_out)
    taken.notes += (taken.notes.empty() ? "" : " | ") + each;
  if (!taken.status.ok()) return taken;
  const absl::StatusOr<std::string> text = JobFileOf(taken.draft, "train.yaml");
  taken.status = text.status();
  if (!text.ok()) return taken;
  std::string line;
  for (const char c : *text) {
    line += c;
    if (c != '\n') continue;
    if (!line.starts_with("#")) {
      const size_t comment = line.find("  #");
      std::string kept = comment == std::string::npos ? line : line.substr(0, comment);
      while (!kept.empty() && (kept.back() == ' ' || kept.back() == '\n')) kept.pop_back();
      taken.file += kept + "\n";
    }
    line.clear();
  }
  return taken;
}

Taken Sbatch(const std::string& script) {
  JobDraft draft;
  absl::Status status = TakeSbatch(script, {}, NoVariable, EightOfEach, &draft);
  return Finish(std::move(status), std::move(draft));
}

Taken Script(const std::string& script) {
  JobDraft draft;
  absl::Status status = TakeScript(script, {}, nullptr, NoVariable, EightOfEach, &draft);
  return Finish(std::move(status), std::move(draft));
}

TEST(InitTest, AnSbatchScriptBecomesAJobFile) {
  const Taken taken = Sbatch(
      "#!/bin/bash\n"
      "#SBATCH -J bert -N 2\n"
      "#SBATCH --ntasks-per-node=4 --gres=gpu:a100:4\n"
      "#SBATCH --time=1-02:30:00\n"
      "#SBATCH --mem=64G\n"
      "#SBATCH -w node[1-2]\n"
      "#SBATCH --partition gpu\n"
      "#SBATCH --cpus-per-task 6  # cores\n"
      "\n"
      "module load cuda/12.4\n"
      "#SBATCH --nodes=99\n"
      "export NCCL_DEBUG=INFO\n"
      "cd /data/bert\n"
      "srun --cpu-bind=none -l python train.py --lr 1e-4 \\\n"
      "    --name 'two words'\n"
      "echo done\n");
  ASSERT_TRUE(taken.status.ok()) << taken.status;
  EXPECT_EQ(taken.file,
            "name: bert\n"
            "command: [/bin/bash, \"-l\", \"-c\", \"module load cuda/12.4\\nexport "
            "NCCL_DEBUG=INFO\\ncd /data/bert\\nexec \\\"$@\\\"\", /bin/bash, python, train.py, "
            "\"--lr\", \"1e-4\", \"--name\", \"two words\"]\n"
            "resources:\n"
            "  per_node: 4\n"
            "  nodes: 2\n"
            "  cpus: 6\n"
            "  devices: a100\n"
            "max_duration: 1590m\n"
            "env:\n"
            "  OMP_NUM_THREADS: \"6\"\n");
  EXPECT_EQ(
      taken.notes,
      "line 7: --partition gpu: there is one queue | "
      "line 14: srun --cpu-bind=none: jobctl plan shows where ranks would run | line 14: srun -l | "
      "line 16: echo done | --mem=64G: it is of all ranks of "
      "a node together; resources.cpus and resources.memory limit each rank");
}

TEST(InitTest, SlurmsLimitsOfATaskBecomeThoseOfARankAndOthersAreNamed) {
  struct Limits {
    const char* options;
    const char* cpus;
    const char* memory;
    const char* notes;
  };
  const Limits kLimits[] = {
      {"-n 2 --cpus-per-task=4 --mem-per-cpu=2G", "4", "8GiB", ""},
      {"-n 2 --mem-per-cpu=512", "", "512MiB", ""},
      {"-N 2 --ntasks-per-node=1 --mem=64G", "", "64GiB", ""},
      {"-n 2 --mem=0", "", "", ""},
      {"-n 2 --mem=1500M", "", "",
       "--mem=1500M: it is of all ranks of a node together; resources.cpus and resources.memory "
       "limit each rank"},
  };
  for (const Limits& limits : kLimits) {
    const Taken taken = Sbatch(std::string("#SBATCH ") + limits.options + "\npython train.py\n");
    ASSERT_TRUE(taken.status.ok()) << limits.options << taken.status;
    EXPECT_EQ(taken.draft.cpus, limits.cpus) << limits.options;
    EXPECT_EQ(taken.draft.memory, limits.memory) << limits.options;
    EXPECT_EQ(taken.notes, limits.notes) << limits.options;
  }
  const Taken by_launcher = Sbatch(
      "#SBATCH -N 2 --cpus-per-task=8\nsrun torchrun --nnodes 2 --nproc_per_node 4 train.py\n");
  EXPECT_EQ(by_launcher.draft.cpus, "");
  EXPECT_NE(by_launcher.notes.find("--cpus-per-task=8: it is of a task"), std::string::npos)
      << by_launcher.notes;
  EXPECT_FALSE(Sbatch("#SBATCH --mem=lots\npython train.py\n").status.ok());
}

TEST(InitTest, TorchrunUnderSbatchKeepsItsRanksAndTakesTheNodes) {
  const Taken taken = Sbatch(
      "#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\n"
      "export MASTER_ADDR=$(scontrol show hostnames | head -n 1)\n"
      "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE "
      "--rdzv_id=$SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint=$MASTER_ADDR:29500 train.py\n");
  ASSERT_TRUE(taken.status.ok()) << taken.status;
  EXPECT_EQ(taken.file,
            "command: [python3, \"-u\", train.py]\n"
            "resources:\n  per_node: 8\n  nodes: 4\n  devices: gpu\n");
  EXPECT_EQ(taken.notes,
            "line 3: export MASTER_ADDR=$(scontrol show hostnames | head -n 1): the coordinator "
            "decides | "
            "--rdzv-backend: the coordinator decides | --rdzv-endpoint: the coordinator decides");
}

struct Shape {
  const char* options;
  const char* resources;
};

TEST(InitTest, SlurmsCountsBecomeRanksNodesAndDevices) {
  const Shape kShapes[] = {
      {"-n 6", "  processes: 6\n  devices: cpu\n"},
      {"-n6 -N2", "  processes: 6\n  nodes: 2\n  devices: cpu\n"},
      {"-N 2-4 --ntasks-per-node 2", "  per_node: 2\n  nodes: \"2:4\"\n  devices: cpu\n"},
      {"-N 2-4 -n 8", "  processes: 8\n  nodes: 2\n  devices: cpu\n"},
      {"-N2", "  per_node: 1\n  nodes: 2\n  devices: cpu\n"},
      {"-n 2 -G 8", "  processes: 2\n  devices: \"gpu:8\"\n"},
      {"-n 4 --ntasks-per-node=2 --gres=gpu:2", "  processes: 4\n  nodes: 2\n  devices: gpu\n"},
      {"-n 8 --gpus=h100:8", "  processes: 8\n  devices: h100\n"},
      {"-n 4 --gpus-per-task=2", "  processes: 4\n  devices: \"gpu:8\"\n"},
      {"-n 2 --gres gpu", "  processes: 2\n  devices: gpu\n"},
      {"-n 2 --gres=shard:1,gpu:a100:2,nvme:1", "  processes: 2\n  devices: a100\n"},
  };
  for (const Shape& shape : kShapes) {
    const Taken taken = Sbatch(std::string("#SBATCH ") + shape.options + "\npython train.py\n");
    EXPECT_EQ(taken.file,
              std::string("command: [python, train.py]\nresources:\n") + shape.resources)
        << shape.options << " " << taken.status;
  }
}

TEST(InitTest, WhatElseSlurmWouldReserveIsNamed) {
  const Taken taken = Sbatch("#SBATCH -n 2 --gres=shard:1,gpu:2,nvme:1\npython train.py\n");
  EXPECT_EQ(taken.notes, "--gres=shard:1,nvme:1: nodes offer no such resource here");
  EXPECT_FALSE(Sbatch("#SBATCH -n 2 --gres=\npython train.py\n").status.ok());
  EXPECT_FALSE(Sbatch("#SBATCH -n 2 --gres=gpu:-1:2:3\npython train.py\n").status.ok());
}

TEST(InitTest, SlurmsTimesAreRead) {
  const std::pair<const char*, uint64_t> kTimes[] = {
      {"90", 5'400'000},     {"90:30", 5'430'000},    {"2:00:00", 7'200'000}, {"1-0", 86'400'000},
      {"1-2:3", 93'780'000}, {"1-2:3:4", 93'784'000}, {"UNLIMITED", 0},       {"0", 0},
  };
  for (const auto& [text, ms] : kTimes) {
    JobDraft draft;
    ASSERT_TRUE(TakeSbatch(std::string("#SBATCH -t ") + text + "\npython x.py\n", {}, NoVariable,
                           EightOfEach, &draft)
                    .ok())
        << text;
    EXPECT_EQ(draft.max_duration_ms, ms) << text;
  }
}

TEST(InitTest, ATorchrunScriptIsReadAndNeverRun) {
  const Taken taken = Script(
      "#!/bin/sh\nset -e\nLR=0.1\nexport DATA=/data\n"
      "torchrun --standalone --nproc-per-node=gpu --max-restarts=3 train.py --lr $LR\n");
  ASSERT_TRUE(taken.status.ok()) << taken.status;
  EXPECT_EQ(taken.file,
            "command: [python3, \"-u\", train.py, \"--lr\", \"0.1\"]\n"
            "resources:\n  per_node: 8\n  nodes: 1\n  devices: gpu\n"
            "restarts: 3\nenv:\n  DATA: \"/data\"\n");
}

TEST(InitTest, WhatOnlyAShellKnowsIsRefusedWithItsLine) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"python train.py --data $DATA\n",
       "line 1 needs a shell to know $DATA: python train.py --data $DATA"},
      {"\ntorchrun --nproc-per-node $N train.py\n",
       "line 2 needs a shell to know $N: torchrun --nproc-per-node $N train.py"},
      {"python train.py | tee log\n", "line 1 needs a shell: python train.py | tee log"},
      {"python $(cat cmd)\n", "line 1 needs a shell: python $(cat cmd)"},
      {"echo nothing\n", "no line starts with srun, torchrun, accelerate, python or ./PROGRAM"},
      {"", "no line starts with srun, torchrun, accelerate, python or ./PROGRAM"},
  };
  for (const auto& [script, what] : kRefused) {
    const common::Problem problem = common::ProblemOf(Script(script).status);
    EXPECT_EQ(problem.code, "JC1010");
    EXPECT_EQ(problem.what, what);
    EXPECT_NE(problem.fix, "");
  }
  EXPECT_EQ(common::ProblemOf(Sbatch("#SBATCH -N many\npython x\n").status).what,
            "line 1: --nodes of sbatch cannot be \"many\" here");
}

struct Line {
  const char* script;
  const char* command;  // as the job file has it; or the error
};

TEST(InitTest, OptionsOfSrunAndTheirValuesAreNoPartOfTheCommand) {
  const Line kLines[] = {
      {"srun -A lab --mpi pmix python train.py", "command: [python, train.py]\n"},
      {"srun -p gpu -u python train.py", "command: [python, train.py]\n"},
      {"srun -l --export ALL --cpu-bind none -N2 python train.py", "command: [python, train.py]\n"},
      {"srun --kill-on-bad-exit=1 --jobid $SLURM_JOB_ID python train.py",
       "command: [python, train.py]\n"},
      {"NCCL_DEBUG=INFO srun python train.py  # go", "command: [python, train.py]\n"},
      {"srun --new-option python train.py",
       "line 2: srun's option --new-option is not known here, nor whether a value follows it"},
      {"srun bash -c 'python train.py --node $SLURM_NODEID'",
       "line 2: ranks have no $SLURM_NODEID here"},
  };
  for (const Line& line : kLines) {
    const Taken taken = Sbatch(std::string("#SBATCH -n 2\n") + line.script + "\n");
    const std::string what = taken.status.ok() ? taken.file.substr(0, taken.file.find('\n') + 1)
                                               : common::ProblemOf(taken.status).what;
    EXPECT_EQ(what, line.command) << line.script;
    EXPECT_EQ(taken.notes.find("@unknown"), std::string::npos) << taken.notes;
  }
}

TEST(InitTest, TheOneLineThatStartsRanksIsTakenOrNone) {
  const Line kLines[] = {
      {"python --version\nsrun python train.py\n", "command: [python, train.py]\n"},
      {"cat >run.sh <<'EOF'\ncd /inner\nexport SECRET=inner\npython inner.py\nEOF\n"
       "torchrun --nproc-per-node 2 train.py\n",
       "command: [python3, \"-u\", train.py]\n"},
      {"if [ -n \"$CONDA\" ]; then\n  export A=1\nfi\nsrun python train.py\n",
       "command: [python, train.py]\n"},
      {"N=$((1<<2))\npython train.py\n", "command: [python, train.py]\n"},
      {"srun hostname\nsrun python train.py\n",
       "lines 1 and 2 both start something, and a job has one command"},
      {"python prepare.py\npython train.py\n",
       "lines 1 and 2 both start something, and a job has one command"},
      {"for seed in 1 2; do\n  python train.py\ndone\n", "line 2 needs a shell: python train.py"},
      {"help() {\n  python help.py\n}\nsrun python train.py\n", "command: [python, train.py]\n"},
  };
  for (const Line& line : kLines) {
    const Taken taken = Script(line.script);
    const std::string what = taken.status.ok() ? taken.file.substr(0, taken.file.find('\n') + 1)
                                               : common::ProblemOf(taken.status).what;
    EXPECT_EQ(what, line.command) << line.script;
    EXPECT_EQ(taken.draft.env.count("A") + taken.draft.env.count("SECRET"), 0u) << line.script;
    EXPECT_EQ(taken.draft.workdir, "") << line.script;
  }
}

TEST(InitTest, AHostileScriptCannotWriteKeysOfItsOwn) {
  std::string script = "#SBATCH -J 'x\\ncommand: [evil]'\n#SBATCH --comment='a\rrestarts: 9'\n";
  for (int i = 0; i < 1000; ++i) script += "line" + std::to_string(i) + "\rcommand: [evil]\n";
  script += "export A='\": [evil'\npython 'a\": {b' - yes 010 @x\n";
  const Taken taken = Sbatch(script);
  // The name is refused; everything else is quoted or in a comment.
  EXPECT_EQ(common::CodeOf(taken.status).substr(0, 4), "JC11") << taken.status;
  JobDraft draft = taken.draft;
  draft.name.clear();
  EXPECT_LE(draft.left_out.size(), 60u);
  const absl::StatusOr<std::string> text = JobFileOf(draft, "train.yaml");
  ASSERT_TRUE(text.ok()) << text.status();
  v1::JobSpec spec;
  ASSERT_TRUE(ParseJobFile("train.yaml", *text, {}, &spec).ok());
  ASSERT_EQ(spec.command_size(), 6);
  EXPECT_EQ(spec.command(1), "a\": {b");
  EXPECT_EQ(spec.command(4), "010");
  EXPECT_EQ(spec.env().at("A"), "\": [evil");
  EXPECT_EQ(spec.restarts(), 0u);
}

TEST(InitTest, WhatIsWrittenReadsBackAsItWas) {
  JobDraft draft;
  draft.name = "no";
  draft.command = {"./train", "",  "-",   "~",    "on",           "1.5",
                   "a b",     "ü", "a#b", "x: y", "${local_rank}"};
  draft.processes = 3;
  draft.env = {{"A", "yes"}, {"B", ""}, {"N", "0123"}};
  draft.grace_ms = 1500;
  const absl::StatusOr<std::string> text = JobFileOf(draft, "train.yaml");
  ASSERT_TRUE(text.ok()) << text.status();
  v1::JobSpec spec;
  ASSERT_TRUE(ParseJobFile("train.yaml", *text, {}, &spec).ok());
  EXPECT_EQ(std::vector<std::string>(spec.command().begin(), spec.command().end()), draft.command);
  EXPECT_EQ(spec.name(), "no");
  EXPECT_EQ(spec.env().at("A"), "yes");
  EXPECT_EQ(spec.env().at("N"), "0123");
  EXPECT_EQ(spec.grace_ms(), 1500u);
}

TEST(InitTest, WhatAJobFileCannotHoldIsRefusedAndNotChanged) {
  JobDraft draft;
  draft.command = {"python", "caf\xe9.py"};
  draft.processes = 1;
  EXPECT_EQ(common::CodeOf(JobFileOf(draft, "train.yaml").status()), "JC1101");
}

}  // namespace
}  // namespace muster::client
