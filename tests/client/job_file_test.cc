// The strict job file: what is accepted, and every YAML trap with its position and fix.
#include "client/job_file/job_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "client/command_line/errors.h"
#include "client/job_file/yaml.h"
#include "common/job/rules.h"
#include "common/problem.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"
#include "tests/support/paths.h"

namespace muster::client {
namespace {

struct WrongFile {
  std::string text;
  std::string says;  // "line:column: …"
};

std::string ErrorOf(const std::string& text, const std::vector<std::string>& sets = {}) {
  v1::JobSpec spec;
  const auto file = ParseJobFile("f", text, sets, &spec);
  return file.ok() ? "" : common::ProblemOf(file.status()).what;
}

TEST(JobFileTest, AWholeFileBecomesItsSpec) {
  v1::JobSpec spec;
  const auto file = ParseJobFile("f", R"(
name: digits
command: [python, train.py, --lr, "0.1"]
workdir: /data
env: {LR: 0.1, EMPTY: , WORD: "yes"}
resources:
  nodes: 1:4
  per_node: 8
  devices: npu>=64GB
  cpus: 2.5
  memory: 1.5GiB
restarts: 3
priority: -5
grace: 1m30s
max_duration: 2h
on_node_loss: wait
checkpoint: {keep: 5, writers: all}
logs: block
tensorboard: [runs, /tb]
virtual_local_rank: true
clean_env: true
)",
                                 {}, &spec);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->clean_env);
  EXPECT_EQ(spec.name(), "digits");
  EXPECT_EQ(spec.command_size(), 4);
  EXPECT_EQ(spec.command(3), "0.1");
  EXPECT_EQ(spec.env().at("LR"), "0.1");
  EXPECT_EQ(spec.env().at("EMPTY"), "");
  EXPECT_EQ(spec.env().at("WORD"), "yes");
  EXPECT_EQ(spec.shape().min_nodes(), 1u);
  EXPECT_EQ(spec.shape().max_nodes(), 4u);
  EXPECT_EQ(spec.shape().per_node(), 8u);
  EXPECT_EQ(spec.shape().device().kind(), "npu");
  EXPECT_EQ(spec.shape().device().min_memory_bytes(), 64'000'000'000ull);
  EXPECT_EQ(spec.shape().limits().cpu_millis(), 2'500u);
  EXPECT_EQ(spec.shape().limits().memory_bytes(), uint64_t{1'536} << 20);
  EXPECT_EQ(spec.restarts(), 3u);
  EXPECT_EQ(spec.priority(), -5);
  EXPECT_EQ(spec.grace_ms(), 90'000u);
  EXPECT_EQ(spec.max_duration_ms(), 7'200'000u);
  EXPECT_EQ(spec.on_node_loss(), v1::ON_NODE_LOSS_WAIT);
  EXPECT_EQ(spec.checkpoint().keep(), 5u);
  EXPECT_EQ(spec.checkpoint().writers(), v1::CHECKPOINT_WRITERS_ALL);
  EXPECT_EQ(spec.logs(), v1::LOG_POLICY_BLOCK);
  EXPECT_EQ(spec.tensorboard_dirs_size(), 2);
  EXPECT_TRUE(spec.virtual_local_rank());
}

TEST(JobFileTest, ACommandInOneTextRunsInAShell) {
  v1::JobSpec spec;
  ASSERT_TRUE(ParseJobFile("f", "command: python a.py | tee b\n", {}, &spec).ok());
  EXPECT_EQ(spec.command(0), "sh");
  EXPECT_EQ(spec.command(2), "python a.py | tee b");
}

TEST(JobFileTest, CodeSetupOutputsAndContainerAreKeys) {
  v1::JobSpec spec;
  const auto file = ParseJobFile("f", R"(
command: [train]
workdir: .
sync: true
setup: pip install x
outputs: results
image: localhost/pytorch
mounts: [/data, /scratch:/tmp, "/home/a:/home/a:ro"]
shm: 8GiB
)",
                                 {}, &spec);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->sync, true);
  EXPECT_EQ(spec.workdir(), ".");
  const std::vector<std::string> setup(spec.setup().begin(), spec.setup().end());
  EXPECT_EQ(setup, (std::vector<std::string>{"/bin/sh", "-e", "-c", "pip install x"}));
  ASSERT_EQ(spec.outputs_size(), 1);
  EXPECT_EQ(spec.outputs(0), "results");
  const v1::ContainerSpec& container = spec.container();
  EXPECT_EQ(container.image(), "localhost/pytorch");
  ASSERT_EQ(container.mounts_size(), 3);
  EXPECT_EQ(container.mounts(0).target(), "");
  EXPECT_EQ(container.mounts(1).target(), "/tmp");
  EXPECT_FALSE(container.mounts(1).read_only());
  EXPECT_TRUE(container.mounts(2).read_only());
  EXPECT_EQ(container.shm_bytes(), uint64_t{8} << 30);

  v1::JobSpec other;
  const auto second =
      ParseJobFile("f", "command: [a]\nsync: false\nsetup: [make, all]\n", {}, &other);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->sync, false);
  EXPECT_EQ(other.setup(1), "all");
  EXPECT_FALSE(other.has_container());
}

TEST(JobFileTest, EachTrapIsAnErrorWithItsPlace) {
  const WrongFile kWrong[] = {
      {"num_process: 2", "f:1:1: unknown key \"num_process\""},
      {"resources:\n  processs: 2",
       "f:2:3: unknown key \"processs\" in resources; did you mean \"processes\"?"},
      {"num_processes: 2",
       "f:1:1: unknown key \"num_processes\"; did you mean \"resources.processes\"?"},
      {"ranks: 2", "unknown key \"ranks\"; did you mean \"resources.processes\"?"},
      {"resources: {nproc_per_node: 2}",
       "unknown key \"nproc_per_node\" in resources; did you mean \"per_node\"?"},
      {"entrypoint: x", "did you mean \"command\"?"},
      {"resources:\n  restarts: 1", "did you mean \"restarts\" outside of \"resources\"?"},
      {"name: a\nname: b", "f:2:1: \"name\" is given twice; the first is on line 1"},
      {"env:\n  A: 1\n  A: 2", "f:3:3: \"A\" is given twice"},
      {"<<: {a: 1}", "`<<` (merge) is not allowed"},
      {"name: &x a\nworkdir: *x", "f:2:10: aliases (*name) are not allowed"},
      {"name: &x a", "f:1:7: anchors (&name) are not allowed"},
      {"env: {FLAG: yes}",
       "f:1:13: `yes` means different things to different readers; write true or false, or "
       "\"yes\" for the word"},
      {"env: {FLAG: Off}", "`Off` means different things"},
      {"virtual_local_rank: on", "`on` means different things"},
      {"env: {CODE: 010}", "f:1:13: `010` has a leading zero"},
      {"restarts: 010", "`010` has a leading zero"},
      {"restarts: three", "f:1:11: restarts takes a whole number from 0 to 10000, not \"three\""},
      {"restarts: \"3\"", "restarts takes a whole number"},
      {"restarts: -1", "not \"-1\""},
      {"restarts: 1.5", "not \"1.5\""},
      {"resources: {processes: 0}",
       "resources.processes takes a whole number from 1 to 100000, not \"0\""},
      {"resources: {processes: 1000000}", "not \"1000000\""},
      {"resources: {nodes: 4:1}", "resources.nodes takes N or MIN:MAX"},
      {"resources: {devices: \"gpu:0\"}", "`:` must be followed by a count"},
      {"resources: {devices: \"gpu>=12\"}", "`>=` must be followed by a memory size like 64GB"},
      {"resources: 4", "resources takes a section of keys, not \"4\""},
      {"grace: soon", "grace takes a duration like 30s"},
      {"resources: {cpus: many}", "resources.cpus: \"many\" is not a number of processors"},
      {"resources: {memory: 4H}", "resources.memory: \"4H\" is not a size of memory from 4 MiB"},
      {"cpus: 2", "did you mean \"resources.cpus\"?"},
      {"resources: {mem: 4GB}", "did you mean \"memory\"?"},
      {"logs: maybe", "logs takes drop or block, not \"maybe\""},
      {"virtual_local_rank: 1", "virtual_local_rank takes true or false, not \"1\""},
      {"command: {a: b}", "command takes a list of texts, not a section"},
      {"command: [a, [b]]", "an item of command takes a text, not a list"},
      {"name:", "name has no value; give one or remove the key"},
      {"container_image: x", "f:1:1: unknown key \"container_image\"; did you mean \"image\"?"},
      {"file_mounts: x", "unknown key \"file_mounts\"; did you mean \"sync\"?"},
      {"shm_size: 1", "unknown key \"shm_size\"; did you mean \"shm\"?"},
      {"shm: 8H", "f:1:6: shm takes a size like 512MiB (powers of 1,024) or 4GB"},
      {"shm: [1GiB]", "shm takes a size"},
      {"sync: .", "sync takes true or false, not \".\""},
      {"setup: {a: b}", "setup takes a list of texts, not a section"},
      {"mounts: [/a:/b:rw]", "f:1:10: an item of mounts takes SOURCE, SOURCE:TARGET"},
      {"mounts: [/a, '/a:']", "not \"/a:\""},
      {"mounts: [/a:/b:ro:x]", "an item of mounts takes"},
      {"partition: a", "unknown key \"partition\": there is one queue; omit it"},
      {"resources: {walltime: 1h}", "did you mean \"max_duration\"?"},
      {"a: b: c", "f:1:5: not valid YAML"},
      {"- a\n- b", "a job file is a map of keys"},
      {"", "a job file is a map of keys"},
      {"name: a\n---\nname: b", "a second document starts here"},
      {"name: !!python/object x", "tags ("},
      {"? [a]\n: b", "a key must be a word"},
      {"a: 1\nresources:\n\tprocesses: 2",
       "f:3:1: this line is indented with a tab, and YAML allows only"},
      {"env:\n  A: 1\n \tB: 2", "f:3:2: this line is indented with a tab"},
      {"command: [a]\n\tname: x", "f:2:1: this line is indented with a tab"},
      {"name: \"a\x01\"", "f:1:1: this line has control characters or is not UTF-8"},
      {"name: a\nworkdir: \xff", "f:2:1: this line has control characters or is not UTF-8"},
  };
  for (const WrongFile& wrong : kWrong) {
    const std::string error = ErrorOf(wrong.text);
    EXPECT_NE(error.find(wrong.says), std::string::npos) << wrong.text << "\n=> " << error;
  }
}

TEST(JobFileTest, AllErrorsComeAtOnceInFileOrder) {
  const std::string error = ErrorOf("nmae: a\nrestarts: x\nresources:\n  bogus: 1\n");
  EXPECT_NE(
      error.find("f has 3 errors\nf:1:1: unknown key \"nmae\"; did you mean \"name\"?\nf:2:11: "),
      std::string::npos)
      << error;
  EXPECT_LT(error.find("f:2:11"), error.find("f:4:3"));
}

TEST(JobFileTest, DepthAndNumberOfValuesAreBounded) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "[";
  EXPECT_NE(ErrorOf("command: " + deep), "");
  deep += std::string(1000, ']');
  EXPECT_NE(ErrorOf("command: " + deep).find("levels deep"), std::string::npos);
  std::string many = "command: [";
  for (int i = 0; i < 30'000; ++i) many += "a,";
  EXPECT_NE(ErrorOf(many + "a]").find("more than 20000 values"), std::string::npos);
}

TEST(JobFileTest, SetOverlaysKeysAsIfWrittenThere) {
  v1::JobSpec spec;
  const auto file =
      ParseJobFile("f", "command: [a]\nenv: {LR: 1}\n",
                   {"resources.processes=4", "env.LR=2", "env.a.b=3", "command=[x, y]"}, &spec);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(spec.shape().processes(), 4u);
  EXPECT_EQ(spec.env().at("LR"), "2");
  EXPECT_EQ(spec.env().at("a.b"), "3");
  EXPECT_EQ(spec.command(1), "y");
  EXPECT_NE(ErrorOf("command: [a]", {"restarts"}).find("write --set KEY=VALUE"), std::string::npos);
  EXPECT_NE(ErrorOf("command: [a]", {"retsarts=1"}).find("did you mean \"restarts\"?"),
            std::string::npos);
}

TEST(JobFileTest, AScriptIsNotTakenForAJobFile) {
  const auto said = [](const std::string& name, const std::string& content) {
    v1::JobSpec spec;
    const absl::Status status = ParseJobFile(name, content, {}, &spec).status();
    return common::ProblemOf(status).what + " / " + common::ProblemOf(status).fix;
  };
  EXPECT_EQ(said("train.py", "import torch\nprint(1)\n"),
            "train.py is a script, not a job file / jobctl submit -- python train.py");
  EXPECT_EQ(said("go", "#!/bin/sh\necho\n"),
            "go is a script, not a job file / jobctl submit -- ./go");
}

TEST(JobFileTest, ABadSetIsNamedAndALineOfTheFileKeepsItsPlace) {
  EXPECT_EQ(ErrorOf("command: [a]", {"resources.proceses=2"}),
            "1 error in --set\n--set resources.proceses=2: unknown key \"proceses\" in resources; "
            "did you mean \"processes\"?");
  EXPECT_EQ(ErrorOf("restarts: 1\ncommand: [a]", {"restarts=x", "env=[a]"}),
            "2 errors in --set\n"
            "--set restarts=x: restarts takes a whole number from 0 to 10000, not \"x\"\n"
            "--set env=[a]: env takes a map of names to texts, not a list");
  EXPECT_EQ(
      ErrorOf("command: [a]\nnmae: x", {"grace=0"}),
      "f has 2 errors\n--set grace=0: grace takes a duration like 30s, 10m or 2h, from 1ms to "
      "1d 0h, not \"0\"\nf:2:1: unknown key \"nmae\"; did you mean \"name\"?");
}

TEST(JobFileTest, ASetOfANameThatIsNoTextIsRefused) {
  const std::string error = ErrorOf("command: [a]", {"labels.\xff\xfe=x"});
  EXPECT_NE(error.find("the key is not UTF-8 text"), std::string::npos) << error;
  EXPECT_NE(error.find("labels.\\xff\\xfe=x"), std::string::npos) << error;
}

TEST(JobFileTest, TheDocumentListsEveryKey) {
  std::ifstream file(TestSource("docs/jobfile.md"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(JobKeyTable()), std::string::npos)
      << "docs/jobfile.md must hold the output of `jobctl help jobfile --markdown`";
}

TEST(JobFileTest, TheDefaultsThatAreToldAreTheOnesThatHold) {
  const std::pair<std::string_view, int64_t> kDefaults[] = {
      {"node_loss_restarts", job::kDefaultNodeLossRestarts},
      {"stop_after", job::kDefaultStopAfterMs},
      {"grace", job::kDefaultGraceMs},
      {"checkpoint.keep", job::kDefaultCheckpointsKept}};
  for (const auto& [path, value] : kDefaults) {
    for (const JobKey& key : JobKeys()) {
      if (key.path != path) continue;
      const size_t at = key.meaning.find("Default: ");
      ASSERT_NE(at, std::string_view::npos) << path;
      const std::string_view told = key.meaning.substr(at + 9);
      const auto number = key.type == KeyType::kDuration ? common::ParseDurationMs(told)
                                                         : common::ParseInteger(told);
      ASSERT_TRUE(number.ok()) << path << ": " << told;
      EXPECT_EQ(*number, value) << path;
    }
  }
}

}  // namespace
}  // namespace muster::client
