// What a command line, a job file and the environment make of a job, and what is refused.
#include "client/submit/spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/command_line/arguments.h"
#include "client/session/session.h"
#include "client/session/spec_environment.h"
#include "common/problem.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

class SpecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/spec.XXXXXX";
    directory_ = mkdtemp(path);
    setenv("JOBCTL_CONFIG", (directory_ + "/absent.yaml").c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    for (const char* name : {"JOBCTL_CONFIG", "MUSTER_SPEC_TEST", "MUSTER_SPEC_BYTES"}) {
      unsetenv(name);
    }
  }
  std::string File(const std::string& text) const {
    const std::string path = directory_ + "/job.yaml";
    std::ofstream(path) << text;
    return path;
  }
  // Nothing of it needs a coordinator.
  absl::StatusOr<v1::JobSpec> Build(const std::vector<std::string>& line) {
    const auto arguments = Arguments::Parse(line);
    EXPECT_TRUE(arguments.ok()) << arguments.status();
    Session session(Terminal{}, *Settings::Resolve(*arguments), *arguments);
    testing::internal::CaptureStderr();
    absl::StatusOr<v1::JobSpec> spec = BuildSpec(session, *arguments);
    notes_ = testing::internal::GetCapturedStderr();
    return spec;
  }
  absl::StatusOr<Submission> BuildFor(const std::vector<std::string>& line) {
    const auto arguments = Arguments::Parse(line);
    EXPECT_TRUE(arguments.ok()) << arguments.status();
    Session session(Terminal{}, *Settings::Resolve(*arguments), *arguments);
    return BuildSubmission(session, *arguments);
  }
  // "JC1104 what"
  std::string Refusal(const std::vector<std::string>& line) {
    const common::Problem problem = common::ProblemOf(Build(line).status());
    return problem.code + " " + problem.what;
  }

  std::string directory_;
  std::string notes_;  // of the last Build
};

TEST_F(SpecTest, FlagsWinOverTheJobFile) {
  const std::string file = File(
      "name: from-file\ncommand: [train]\nresources: {processes: 2}\nrestarts: 1\nenv: {A: "
      "file}\n");
  const auto spec =
      Build({"submit", file, "-n", "4", "--name", "from-flag", "-e", "A=flag", "--restarts", "5"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "from-flag");
  EXPECT_EQ(spec->shape().processes(), 4u);
  EXPECT_EQ(spec->restarts(), 5u);
  EXPECT_EQ(spec->env().at("A"), "flag");
  EXPECT_EQ(Build({"submit", file})->env().at("A"), "file");
}

TEST_F(SpecTest, AFlagMeansTheSameOnRunSubmitAndPlan) {
  const std::vector<std::vector<std::string>> flags = {
      {"-n", "3"},           {"--nodes", "1"},
      {"--devices", "cpu"},  {"--cpus", "0.5"},
      {"--memory", "1GB"},   {"-e", "A=b"},
      {"--name", "n"},       {"--label", "k=v"},
      {"--project", "p"},    {"--secret", "s"},
      {"--restarts", "2"},   {"--priority", "7"},
      {"--time", "3s"},      {"--grace", "1s"},
      {"--workdir", "/usr"}, {"--setup", "true"},
      {"--outputs", "out"},  {"--image", "docker.io/a/b@sha256:" + std::string(64, 'a')},
      {"--tb-dir", "/tmp"},  {"--env-from", "shell"}};
  const auto bare = Build({"run", "--clean-env", "--", "true"});
  ASSERT_TRUE(bare.ok()) << bare.status();
  for (const auto& flag : flags) {
    std::vector<std::string> specs;
    for (const char* command : {"run", "submit", "plan"}) {
      std::vector<std::string> line = {command};
      if (flag[0] != "--env-from") line.push_back("--clean-env");
      line.insert(line.end(), flag.begin(), flag.end());
      line.insert(line.end(), {"--", "true"});
      const auto spec = Build(line);
      ASSERT_TRUE(spec.ok()) << command << " " << flag[0] << ": " << spec.status();
      specs.push_back(spec->DebugString());
    }
    EXPECT_EQ(specs[0], specs[1]) << flag[0];
    EXPECT_EQ(specs[0], specs[2]) << flag[0];
    EXPECT_NE(specs[0], bare->DebugString()) << flag[0] << " enters nothing";
  }
}

TEST_F(SpecTest, ATimeLimitIsAFlagAndAKeyOfTheJobFile) {
  const std::string file = File("command: [train]\nmax_duration: 1h\n");
  EXPECT_EQ(Build({"run", "--time", "2h", "train"})->max_duration_ms(), 7'200'000u);
  EXPECT_EQ(Build({"submit", file})->max_duration_ms(), 3'600'000u);
  EXPECT_EQ(Build({"submit", file, "--time", "90m"})->max_duration_ms(), 5'400'000u);
  EXPECT_EQ(Refusal({"run", "--time", "400d", "train"}),
            "JC1108 max_duration takes from 1s to 365d 0h, not 34560000000 ms");
}

TEST_F(SpecTest, ALineThatIsNoJobIsRefusedWithItsCode) {
  EXPECT_EQ(Refusal({"run", "-n", "0", "x"}),
            "JC1004 -n (--processes) takes a whole number from 1 to 100000, not \"0\"");
  EXPECT_EQ(Refusal({"run", "--grace", "soon", "x"}),
            "JC1004 --grace takes a duration like 30s, 10m or 2h, not \"soon\"");
  EXPECT_EQ(Refusal({"run", "-e", "=x", "x"}), "JC1004 -e =x is not NAME=VALUE");
  EXPECT_EQ(Refusal({"run", "-e", "A\nB=x", "x"}).substr(0, 6), "JC1004");
  EXPECT_EQ(Refusal({"run", "--devices", "gpu:0", "x"}).substr(0, 38),
            "JC1104 \"gpu:0\" is not a device request");
  EXPECT_EQ(Refusal({"run", "--accelerate-config", "f", "--", "torchrun", "t.py"}),
            "JC1004 --accelerate-config cannot be combined with a torchrun command line");
  EXPECT_EQ(Refusal({"submit", directory_ + "/absent.yaml"}),
            "JC1005 the job file cannot be read: cannot open " + directory_ +
                "/absent.yaml: No such file or directory");
}

TEST_F(SpecTest, AJobFileInPlaceOfACommandIsNamed) {
  const std::string file = File("command: [train]\n");
  EXPECT_EQ(Refusal({"run", file}),
            "JC1004 " + file + " is a job file, and a command is meant here");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  EXPECT_EQ(Build({"run", file})->command(0), file) << "a program may have any name";
}

TEST_F(SpecTest, AJobFileThatNamesAnotherDirectoryIsAskedFor) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  const std::string file = File("command: [train]\nworkdir: /etc\nsync: true\n");
  const common::Problem problem = common::ProblemOf(BuildFor({"submit", file}).status());
  EXPECT_EQ(problem.code, "JC1009");
  EXPECT_NE(problem.what.find("The job file wants /etc sent with the job"), std::string::npos);
  EXPECT_TRUE(BuildFor({"submit", file, "--yes"}).ok());
  EXPECT_TRUE(BuildFor({"submit", file, "--sync=/etc"}).ok());
  std::filesystem::current_path(before);
}

TEST_F(SpecTest, AGraceOfNothingIsTheShortestAndNotTheDefault) {
  EXPECT_EQ(Build({"run", "--grace", "0", "x"})->grace_ms(), 1u);
}

TEST_F(SpecTest, AWorkingDirectoryIsMadeAbsolute) {
  EXPECT_EQ(Build({"run", "x"})->workdir(), WorkingDirectory());
  EXPECT_EQ(Build({"run", "--workdir", ".", "x"})->workdir(), WorkingDirectory());
  // Tests may run in the root directory.
  const std::string here = WorkingDirectory() == "/" ? "" : WorkingDirectory();
  EXPECT_EQ(Build({"run", "--workdir", "a/b", "x"})->workdir(), here + "/a/b");
  EXPECT_EQ(Build({"run", "--workdir", "./a/", "x"})->workdir(), here + "/a");
  EXPECT_EQ(Build({"run", "--workdir", "/data", "x"})->workdir(), "/data");
}

TEST_F(SpecTest, SetupOutputsAndImageAreFlagsToo) {
  const auto spec = Build({"submit", File("command: [x]\nsetup: [make]\noutputs: [a]\n"), "--setup",
                           "make all", "--outputs", "b", "--image", "localhost/x"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->setup_size(), 4);
  EXPECT_EQ(spec->setup(3), "make all");
  ASSERT_EQ(spec->outputs_size(), 2);
  EXPECT_EQ(spec->outputs(1), "b");
  EXPECT_EQ(spec->container().image(), "localhost/x");
}

// Of this shell only what is named for the job: an image is another system.
TEST_F(SpecTest, InAnImageTheImagesEnvironmentAndDirectoryCount) {
  const std::string file = File("command: [x]\nimage: oci:/images/x\nenv: {A: b}\n");
  for (const auto& words : {std::vector<std::string>{"submit", file},
                            {"run", "--image", "oci:/images/x", "-e", "A=b", "x"}}) {
    const auto spec = Build(words);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->workdir(), "");
    EXPECT_EQ(spec->env().size(), 1u);
    EXPECT_EQ(spec->env().at("A"), "b");
  }
  EXPECT_EQ(Build({"run", "--image", "oci:/x", "--workdir", "/w", "x"})->workdir(), "/w");
}

TEST_F(SpecTest, CodeIsSentFromTheJobFilesDirectoryOrTheOneThatIsNamed) {
  const std::string file = File("command: [x]\nsync: true\n");
  const std::string real = std::filesystem::canonical(directory_).string();
  const auto built = BuildFor({"submit", file});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->code.root, directory_);
  EXPECT_FALSE(built->code.by_default);
  EXPECT_EQ(built->spec.workdir(), "");
  EXPECT_EQ(BuildFor({"submit", file, "--no-sync"})->code.root, "");
  EXPECT_EQ(BuildFor({"submit", file, "--no-sync"})->spec.workdir(), WorkingDirectory());
  EXPECT_EQ(BuildFor({"run", "--sync", "x"})->code.root, WorkingDirectory());
  EXPECT_EQ(BuildFor({"run", "--sync=" + real, "x"})->code.root, real);
  EXPECT_EQ(BuildFor({"run", "x"})->code.root, "") << "a private coordinator finds it here";
  EXPECT_EQ(Build({"submit", file})->workdir(), directory_) << "for what starts nothing";
  EXPECT_EQ(Refusal({"run", "--sync", "--no-sync", "x"}),
            "JC1004 --sync and --no-sync exclude each other");
  EXPECT_EQ(Refusal({"run", "--sync", "/tmp", "x"}),
            "JC1004 --sync has its directory in the same word, and /tmp is a directory");
  EXPECT_EQ(Refusal({"run", "--sync=/no/such/directory", "x"}),
            "JC1713 there is no directory /no/such/directory to send");
}

TEST_F(SpecTest, PwdIsBelievedOnlyWhenItIsThisDirectory) {
  const std::string before = Variable("PWD");
  const std::filesystem::path here = std::filesystem::current_path();
  const std::string link = directory_ + "/link";
  std::filesystem::create_directory_symlink(here, link);
  setenv("PWD", link.c_str(), 1);
  EXPECT_EQ(WorkingDirectory(), link);
  for (const char* wrong : {"/", "relative", "", "/no/such/directory"}) {
    setenv("PWD", wrong, 1);
    EXPECT_EQ(WorkingDirectory(), here) << wrong;
  }
  setenv("PWD", before.c_str(), 1);
}

TEST_F(SpecTest, TheEnvironmentComesAlongUnlessItIsToBeClean) {
  setenv("MUSTER_SPEC_TEST", "here", 1);
  EXPECT_EQ(Build({"run", "x"})->env().at("MUSTER_SPEC_TEST"), "here");
  const auto clean = Build({"run", "--clean-env", "-e", "MUSTER_SPEC_TEST", "-e", "EMPTY=", "x"});
  EXPECT_EQ(clean->env().at("MUSTER_SPEC_TEST"), "here") << "-e NAME takes the value from here";
  EXPECT_EQ(clean->env().at("EMPTY"), "");
  EXPECT_EQ(Refusal({"run", "-e", "MUSTER_SPEC_UNSET", "x"}),
            "JC1004 -e MUSTER_SPEC_UNSET: the variable is not set here");
  EXPECT_EQ(Refusal({"run", "-e", "A B=1", "x"}), "JC1004 -e A B=1 is not NAME=VALUE");
  EXPECT_EQ(Build({"run", "--clean-env", "x"})->env().count("MUSTER_SPEC_TEST"), 0u);
  EXPECT_EQ(Build({"run", "--clean-env", "x"})->env().count("PATH"), 1u);
  EXPECT_EQ(
      Build({"submit", File("command: [x]\nclean_env: true\n")})->env().count("MUSTER_SPEC_TEST"),
      0u);
}

TEST_F(SpecTest, AFlagBehindTheProgramIsNamed) {
  EXPECT_EQ(Build({"run", "python", "train.py", "-n", "2"})->shape().processes(), 1u);
  EXPECT_EQ(notes_,
            "note: -n comes after the program, which gets it; for jobctl: jobctl run -n N -- "
            "python …\n");
  EXPECT_TRUE(Build({"run", "--", "python", "train.py", "-n", "2"}).ok());
  EXPECT_EQ(notes_, "") << "the person has said where the program begins";
  EXPECT_TRUE(Build({"run", "-n", "2", "python", "train.py", "-n", "2"}).ok());
  EXPECT_EQ(notes_, "");
}

TEST_F(SpecTest, AVariableThatNoShellReplacesIsNamed) {
  EXPECT_EQ(Build({"run", "-e", "LR=0.1", "--", "train", "--lr=${LR}"})->command(1), "--lr=${LR}");
  EXPECT_TRUE(notes_.starts_with("note: the program gets ${LR} as it is written")) << notes_;
  EXPECT_TRUE(Build({"submit", File("command: [train, \"${RANK}\"]\n")}).ok());
  EXPECT_TRUE(notes_.starts_with("note: the program gets ${RANK}")) << notes_;
  for (const std::vector<std::string>& meant : {std::vector<std::string>{"sh", "-c", "train ${LR}"},
                                                {"bash", "run.sh", "${LR}"},
                                                {"python", "-c", "print('${LR}', 1)"},
                                                {"train", "${rank}", "${OTHER}", "$LR", "${LR"}}) {
    std::vector<std::string> line = {"run", "-e", "LR=0.1", "--clean-env", "--"};
    line.insert(line.end(), meant.begin(), meant.end());
    EXPECT_TRUE(Build(line).ok());
    EXPECT_EQ(notes_, "") << meant.back();
  }
}

TEST_F(SpecTest, ToAnotherHostOnlyWhatTrainingNeedsIsSent) {
  const std::vector<std::pair<const char*, const char*>> variables = {
      {"MUSTER_SPEC_TEST", "usual"},
      {"PYTHONPATH", "/lib"},
      {"CUDA_TOKEN", "by a wildcard"},
      {"HF_TOKEN", "hf_1"},
      {"WANDB_API_KEY", "w_1"},
      {"MY_LR", "1"},
      {"MY_OTHER", "2"}};
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  const auto has = [](const absl::StatusOr<v1::JobSpec>& spec, const char* name) {
    return spec->env().count(name) == 1;
  };
  auto spec = Build({"run", "-s", "head:7700", "x"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  for (const char* sent : {"PATH", "MUSTER_SPEC_TEST", "PYTHONPATH"})
    EXPECT_TRUE(has(spec, sent)) << sent;
  for (const char* kept : {"CUDA_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "MY_LR"})
    EXPECT_FALSE(has(spec, kept)) << kept;
  EXPECT_EQ(notes_, "") << "nothing is sent yet";
  const auto noted = [&](const std::vector<std::string>& line) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(BuildFor(line).ok());
    return testing::internal::GetCapturedStderr();
  };
  const std::string left_out = noted({"run", "-s", "head:7700", "x"});
  EXPECT_NE(left_out.find("were not sent, among them CUDA_TOKEN, HF_TOKEN, "), std::string::npos)
      << left_out;
  EXPECT_NE(left_out.find("-e NAME sends one, --env-from shell all"), std::string::npos);
  const std::string named = noted({"run", "-s", "head:7700", "-e", "HF_TOKEN", "x"});
  EXPECT_EQ(named.find("HF_TOKEN"), std::string::npos) << named;

  EXPECT_TRUE(has(Build({"run", "-s", "head:7700", "-e", "HF_TOKEN", "x"}), "HF_TOKEN"));
  EXPECT_TRUE(has(Build({"run", "-s", "unix:/run/c.sock", "x"}), "HF_TOKEN"));
  EXPECT_EQ(notes_, "");
  EXPECT_TRUE(has(Build({"run", "-s", "head:7700", "--env-from", "shell", "x"}), "HF_TOKEN"));
  EXPECT_EQ(notes_, "");
  const std::string file = File("command: [x]\nenv_from: shell\n");
  EXPECT_TRUE(has(Build({"submit", "-s", "head:7700", file}), "HF_TOKEN"));
  EXPECT_FALSE(has(Build({"submit", "-s", "head:7700", "--clean-env", file}), "HF_TOKEN"));
  const auto other = Arguments::Parse({"run", "-s", "head:7700", "--env-from", "all", "x"});
  EXPECT_EQ(common::ProblemOf(other.status()).what, "--env-from takes shell, not \"all\"");

  setenv("JOBCTL_CONFIG", (directory_ + "/config.yaml").c_str(), 1);
  std::ofstream(directory_ + "/config.yaml")
      << "current: lab\ncontexts: {lab: {server: 'head:7700', env_pass: [WANDB_API_KEY, "
         "'MY_*']}}\n";
  spec = Build({"run", "x"});
  for (const char* sent : {"WANDB_API_KEY", "MY_LR", "MY_OTHER"})
    EXPECT_TRUE(has(spec, sent)) << sent;
  EXPECT_FALSE(has(spec, "HF_TOKEN"));
  for (const auto& [name, value] : variables) unsetenv(name);
}

TEST_F(SpecTest, AVariableThatCannotBeSentIsNamedAndLeftOut) {
  setenv("MUSTER_SPEC_BYTES", "\xff", 1);
  const auto spec = Build({"run", "x"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->env().count("MUSTER_SPEC_BYTES"), 0u);
  EXPECT_EQ(notes_, "not sent because they are not UTF-8: MUSTER_SPEC_BYTES\n");
}

TEST_F(SpecTest, ATotalWinsOverTheLaunchersLineAndSaysSo) {
  const auto spec = Build({"run", "-n", "3", "--", "torchrun", "--nproc-per-node=2", "t.py"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->shape().processes(), 3u);
  EXPECT_NE(notes_.find("note: -n 3 overrides the 2 ranks of the launcher's command line"),
            std::string::npos)
      << notes_;
}

TEST_F(SpecTest, LimitsAreOfEachRankAndFlagsWinOverTheFile) {
  const std::string file = File("command: [train]\nresources: {cpus: 2, memory: 4GB}\n");
  const v1::RankLimits from_file = Build({"submit", file})->shape().limits();
  EXPECT_EQ(from_file.cpu_millis(), 2'000u);
  EXPECT_EQ(from_file.memory_bytes(), 4'000'000'000u);
  const v1::RankLimits limits = Build({"submit", file, "--memory", "512MiB"})->shape().limits();
  EXPECT_EQ(limits.cpu_millis(), 2'000u);
  EXPECT_EQ(limits.memory_bytes(), 512u << 20);
  EXPECT_FALSE(Build({"run", "--", "train"})->shape().has_limits());
}

TEST_F(SpecTest, ALauncherInsideAShellIsPointedOut) {
  ASSERT_TRUE(Build({"run", "-n", "2", "--", "sh", "-c", "cd /data && torchrun t.py"}).ok());
  EXPECT_NE(notes_.find("note: every rank starts torchrun itself"), std::string::npos) << notes_;
}

}  // namespace
}  // namespace muster::client
