// What of jobctl cluster needs no other machine: names, records, command lines, scripts; batch scripts
// as jobs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster/manifests.h"
#include "client/cluster/node_list.h"
#include "client/cluster/node_scripts.h"
#include "client/cluster/record.h"
#include "client/cluster/slurm_script.h"
#include "client/cluster/ssh.h"
#include "client/job_file/job_file.h"
#include "client/launchers/batch_file.h"
#include "client/machine/child_output.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "muster/v1/job.pb.h"

namespace muster::client::cluster {
namespace {

std::vector<std::string> NamesOf(const absl::StatusOr<std::vector<SshNode>>& nodes) {
  std::vector<std::string> names;
  if (!nodes.ok()) return {std::string(nodes.status().message())};
  for (const SshNode& node : *nodes) names.push_back(node.name);
  return names;
}

TEST(ClusterTest, NodesAreReadAsPeopleWriteThem) {
  const auto nodes = ParseSshNodes("a,alice@b.example.org,c:2222,alice@d_1:22");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(*nodes, (std::vector<SshNode>{{"a", "", "a", 0},
                                          {"b.example.org", "alice", "b.example.org", 0},
                                          {"c", "", "c", 2222},
                                          {"d_1", "alice", "d_1", 22}}));
  EXPECT_EQ(NamesOf(ParseSshNodes("n[1-3]")), (std::vector<std::string>{"n1", "n2", "n3"}));
  EXPECT_EQ(NamesOf(ParseSshNodes("bob@n[09-10,7]-ib:24,x")),
            (std::vector<std::string>{"n09-ib", "n10-ib", "n7-ib", "x"}));
  // One machine with several ports is several nodes.
  EXPECT_EQ(NamesOf(ParseSshNodes("127.0.0.1:2201,127.0.0.1:2202")),
            (std::vector<std::string>{"127.0.0.1-2201", "127.0.0.1-2202"}));
}

TEST(ClusterTest, WhatIsNoPlainNameNeverBecomesAWord) {
  for (const char* list : {"",
                           ",",
                           "a,",
                           "-oProxyCommand=x",
                           "a,-F/x",
                           "a b",
                           "a;b",
                           "$(id)",
                           "`id`",
                           "a'",
                           "a\"",
                           "a\nb",
                           "@a",
                           "-l@a",
                           "a@b@c",
                           "a:",
                           "a:0",
                           "a:65536",
                           "a:-1",
                           "a:22x",
                           "[::1]",
                           "n[1-",
                           "n[1-2",
                           "n1]",
                           "n[]",
                           "n[2-1]",
                           "n[1-2][1-2]",
                           "n[a-b]",
                           "n[1-1000]",
                           "n[1-0000002]",
                           "../a",
                           ".a",
                           "_a",
                           "a/b",
                           "a,a",
                           "n[1-2],n1",
                           "a\xff",
                           "al ice@b",
                           "a*"}) {
    const auto nodes = ParseSshNodes(list);
    EXPECT_EQ(common::CodeOf(nodes.status()), "JC1801") << list;
  }
  EXPECT_EQ(common::CodeOf(ParseSshNodes(std::string(20'000, 'a')).status()), "JC1801");
  EXPECT_EQ(common::CodeOf(ParseSshNodes(std::string(64, 'a')).status()), "JC1801");
  std::string many = "n0";
  for (int i = 1; i <= static_cast<int>(kNodesMost); ++i) many += ",n" + std::to_string(i);
  EXPECT_EQ(common::CodeOf(ParseSshNodes(many).status()), "JC1801");
}

TEST(ClusterTest, ADirectoryIsOneThatAScriptCanName) {
  for (const char* good : {".muster/clusters", "/scratch/a-b_c.d/e@f+g"})
    EXPECT_TRUE(CheckDirectory(good).ok()) << good;
  for (const char* bad : {"", "-rf", "a b", "a;b", "$HOME", "~/x", "a/../b", "a'b", "a\nb", "/a*"})
    EXPECT_EQ(common::CodeOf(CheckDirectory(bad)), "JC1801") << bad;
  EXPECT_FALSE(CheckDirectory(std::string(201, 'a')).ok());
}

ClusterRecord SomeRecord() {
  return {.name = "lab",
          .on = "ssh",
          .id = "0123456789abcdef0123456789abcdef",
          .directory = ".muster/clusters",
          .ssh_config = "/home/a b/config",
          .ssh_options = {"StrictHostKeyChecking=accept-new", "User \"x\""},
          .head = "b",
          .nodes = {{"a", "alice", "a", 0}, {"b", "", "b", 2222}},
          .job = "",
          .size = ""};
}

TEST(ClusterTest, ARecordIsReadBackAsItWas) {
  const ClusterRecord record = SomeRecord();
  const auto read = ParseRecord(TextOfRecord(record));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "lab");
  EXPECT_EQ(read->directory, record.directory);
  EXPECT_EQ(read->ssh_config, record.ssh_config);
  EXPECT_EQ(read->ssh_options, record.ssh_options);
  EXPECT_EQ(read->head, "b");
  EXPECT_EQ(read->nodes, record.nodes);
}

TEST(ClusterTest, OfTwoThatStartAClusterOfOneNameOneIsToldSo) {
  char directory[] = "/tmp/muster-cluster-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  ConfigFile file;
  file.path = common::StrCat(directory, "/config.yaml");
  ASSERT_TRUE(CreateRecord(file, SomeRecord()).ok());
  EXPECT_EQ(common::CodeOf(CreateRecord(file, SomeRecord())), "JC1809");
  EXPECT_TRUE(SaveRecord(file, SomeRecord()).ok());
  EXPECT_EQ(LoadRecord(file, "lab")->head, "b");
  EXPECT_TRUE(common::RemoveTree(directory).ok());
}

TEST(ClusterTest, ARecordThatWasChangedByHandIsCheckedLikeACommandLine) {
  const std::string good = TextOfRecord(SomeRecord());
  const std::pair<const char*, const char*> kChanges[] = {
      {"\"lab\"", "\"../lab\""},
      {"\"ssh\"", "\"rsh\""},
      {"0123456789abcdef0", "' ; rm -rf"},
      {"\".muster/clusters\"", "\"/; x\""},
      {"\"alice\"", "\"-l\""},
      {"\"host\": \"b\"", "\"host\": \"-b\""},
      {"\"head\": \"b\"", "\"head\": \"c\""},
      {"2222", "99999999999"},
      {"\"host\": \"a\"", "\"host\": \"a,b\""},
      {"\"nodes\"", "\"node\""},
      {"{", "["},
  };
  for (const auto& [from, to] : kChanges) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), std::string(from).size(), to);
    // A port out of range is ssh's own.
    if (std::string(from) == "2222") {
      const auto read = ParseRecord(text);
      ASSERT_TRUE(read.ok());
      EXPECT_EQ(read->nodes[1].port, 0u);
    } else {
      EXPECT_FALSE(ParseRecord(text).ok()) << to;
    }
  }
  EXPECT_FALSE(ParseRecord("").ok());
  EXPECT_FALSE(ParseRecord(std::string(100'000, '[')).ok());
}

TEST(ClusterTest, SshNeverAsksAndTheHostIsNoOption) {
  const std::vector<std::string> words =
      SshWords({.program = "/usr/bin/ssh", .config = "c", .options = {"User=x"}},
               {.name = "a", .user = "alice", .host = "a", .port = 2222});
  const std::vector<std::string> expected = {"/usr/bin/ssh", "-T",
                                             "-o",           "BatchMode=yes",
                                             "-F",           "c",
                                             "-o",           "User=x",
                                             "-o",           "ConnectTimeout=10",
                                             "-o",           "ServerAliveInterval=15",
                                             "-p",           "2222",
                                             "-l",           "alice",
                                             "--",           "a"};
  EXPECT_EQ(words, expected);
}

TEST(ClusterTest, AnAllocationHasANumberOfNodes) {
  for (const char* good : {"1", "4", "2-4", "3-3"}) EXPECT_TRUE(CheckSize(good).ok()) << good;
  for (const char* bad :
       {"", "0", "-4", "4-2", "2-", "1;x", "4 ", "+4", "1e3", "99999999999", "2-4-6", "a,b"})
    EXPECT_EQ(common::CodeOf(CheckSize(bad)), "JC1801") << bad;
}

TEST(ClusterTest, WhatAnAllocationTellsIsCheckedBeforeItIsUsed) {
  const auto ready = ParseReady("12 10.0.0.1:41231 4 muster1.abc\n");
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_EQ(ready->job, "12");
  EXPECT_EQ(ready->https, "10.0.0.1:41231");
  EXPECT_EQ(ready->nodes, 4u);
  EXPECT_EQ(ready->token, "muster1.abc");
  for (const char* bad :
       {"", "12 10.0.0.1:41231 4 t", "12 10.0.0.1 4 t\n", "x 10.0.0.1:1 4 t\n", "12 unix:/x 4 t\n",
        "12 10.0.0.1:1 0 t\n", "12 10.0.0.1:1 4 \n", "12 10.0.0.1:1 4 t u\n", "12 a:1 -4 t\n"})
    EXPECT_FALSE(ParseReady(bad).ok()) << bad;
  EXPECT_FALSE(ParseReady(std::string(10'000, '1') + "\n").ok());
}

TEST(ClusterTest, ARecordOfAnAllocationIsReadBackAsItWas) {
  ClusterRecord record = SomeRecord();
  record.on = "slurm";
  record.directory = "/shared/muster";
  record.job = "4711";
  record.size = "2-4";
  const auto read = ParseRecord(TextOfRecord(record));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job, "4711");
  EXPECT_EQ(read->size, "2-4");
  record.directory = "shared";
  EXPECT_FALSE(ParseRecord(TextOfRecord(record)).ok());
  record.directory = "/shared";
  record.job = "1; scancel -u root";
  EXPECT_FALSE(ParseRecord(TextOfRecord(record)).ok());
}

TEST(ClusterTest, ScriptsOfAnAllocationAreShellAndTheirWordsStayWords) {
  const SlurmScript script{.cluster = "lab",
                           .id = "0123456789abcdef",
                           .directory = "/shared/lab",
                           .size = "2",
                           .admin = "alice",
                           .flags = {"--comment=a b'c", "-p", "gpu"},
                           .margin_s = 120,
                           .resubmits = true};
  EXPECT_NE(JobScript(script).find(
                "--parsable '--comment=a b'\\''c' -p gpu --job-name=muster-lab-01234567 "
                "--dependency=singleton --no-requeue \"$root/job.sh\""),
            std::string::npos)
      << JobScript(script);
  for (const std::string& text : {JobScript(script), NodeScript(script)}) {
    const auto checked =
        OutputOfChild({.argv = {"/bin/sh", "-n"}, .environment = OwnEnvironment(), .input = text});
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->status, 0) << checked->errors;
  }
}

TEST(ClusterTest, TheManifestsAreThoseOfTheSourcesWithTheirNamespace) {
  const std::string text(KubernetesManifests());
  size_t kinds = 0, placed = 0;
  for (size_t at = text.find("\nkind: "); at != std::string::npos;
       at = text.find("\nkind: ", at + 1))
    ++kinds;
  for (size_t at = text.find("\n  namespace: muster\n"); at != std::string::npos;
       at = text.find("\n  namespace: muster\n", at + 1))
    ++placed;
  EXPECT_GE(kinds, 6u);
  EXPECT_EQ(placed, kinds - 1);  // the namespace itself has none
  EXPECT_NE(text.find("image: muster-worker:latest\n"), std::string::npos);
}

// The scripts themselves, by /bin/sh on this machine.
class NodeScriptTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/muster-cluster-XXXXXX";
    directory_ = mkdtemp(name);
  }
  void TearDown() override { Sh("rm -rf " + directory_); }

  static ChildOutput Sh(const std::string& script) {
    const auto output = OutputOfChild(
        {.argv = {"/bin/sh", "-s"}, .environment = OwnEnvironment(), .input = script});
    EXPECT_TRUE(output.ok()) << output.status();
    return output.ok() ? *output : ChildOutput();
  }
  static std::string Machine() {
    std::string text = Sh("uname -sm").text;
    text.pop_back();
    return text;
  }
  NodePlace Place(const std::string& id = "1") const {
    return {.cluster = "lab", .id = id, .directory = directory_, .node = "a"};
  }

  std::string directory_;
};

TEST_F(NodeScriptTest, ANodeIsPreparedOnceAndCleanedByItsOwnClusterAlone) {
  ASSERT_EQ(Sh(PrepareScript(Place(), Machine(), 1)).status, 0);
  EXPECT_EQ(Sh("cd " + Place().Path() + " && ls").text, "bin\nid\nlog\nrun\nruntime\n");
  const ChildOutput again = Sh(PrepareScript(Place("2"), Machine(), 1));
  EXPECT_NE(again.status, 0);
  EXPECT_NE(again.errors.find("exists there already"), std::string::npos) << again.errors;
  EXPECT_EQ(Sh(RemoveScript(Place("2"), 1)).status, 0);
  EXPECT_EQ(Sh("ls " + Place().Path() + "/id").status, 0);
  EXPECT_EQ(Sh(RemoveScript(Place(), 1)).status, 0);
  EXPECT_EQ(Sh("ls " + directory_).text, "");
  // A second time there is nothing to do.
  EXPECT_EQ(Sh(RemoveScript(Place(), 1)).status, 0);
}

TEST_F(NodeScriptTest, AMachineThatCannotRunTheProgramsIsRefusedBeforeAnythingIsMade) {
  const ChildOutput other = Sh(PrepareScript(Place(), "Linux riscv64", 1));
  EXPECT_NE(other.errors.find("the programs here are for Linux riscv64"), std::string::npos);
  const ChildOutput full = Sh(PrepareScript(Place(), Machine(), 1ull << 50));
  EXPECT_NE(full.status, 0);
  EXPECT_NE(full.errors.find("KiB free"), std::string::npos) << full.errors;
  EXPECT_EQ(Sh(RemoveScript(Place(), 1)).status, 0);
  EXPECT_EQ(Sh("ls " + directory_).text, "");
}

TEST_F(NodeScriptTest, OnlyWhatRunsFromItsDirectoryIsEnded) {
  ASSERT_EQ(Sh(PrepareScript(Place(), Machine(), 1)).status, 0);
  // A program that ignores SIGTERM, and the same one elsewhere.
  ASSERT_EQ(Sh("cp /bin/sleep " + Place().Path() + "/bin/muster-shim && cp /bin/sleep " +
               directory_ + "/muster-shim")
                .status,
            0);
  Sh("trap '' TERM; " + Place().Path() + "/bin/muster-shim 300 >/dev/null 2>&1 & trap - TERM; " +
     directory_ + "/muster-shim 300 >/dev/null 2>&1 & echo $! >" + directory_ + "/pid");
  ASSERT_EQ(Sh(RemoveScript(Place(), 1)).status, 0);
  EXPECT_EQ(Sh("ls -l /proc/[0-9]*/exe 2>/dev/null | grep -c " + Place().Path()).text, "0\n");
  EXPECT_EQ(
      Sh("kill -0 $(cat " + directory_ + "/pid) && kill $(cat " + directory_ + "/pid)").status, 0);
}

}  // namespace
}  // namespace muster::client::cluster

namespace muster::client {
namespace {

TEST(BatchFileTest, AScriptIsKnownByItsFirstLineAndItsOptions) {
  EXPECT_TRUE(IsSbatchScript("#!/bin/bash\n#SBATCH -n 2\npython x\n"));
  EXPECT_TRUE(IsSbatchScript("#!/bin/sh\n\n# text\n  #SBATCH --nodes=2\n"));
  EXPECT_FALSE(IsSbatchScript("#SBATCH -n 2\n"));
  EXPECT_FALSE(IsSbatchScript("#!/bin/sh\npython x\n#SBATCH -n 2\n"));
  EXPECT_FALSE(IsSbatchScript("command: [python, x]\n"));
  EXPECT_FALSE(IsSbatchScript(""));
}

absl::StatusOr<BatchJob> Batch(const std::string& content, std::vector<std::string> arguments = {},
                               std::vector<std::string> ignored = {}) {
  return JobOfSbatch(
      {.name = "job.sbatch",
       .content = content,
       .arguments = std::move(arguments),
       .ignored = std::move(ignored)},
      [](std::string_view) { return std::string(); }, [](const std::string&) { return 1u; });
}

std::string CommandOf(const absl::StatusOr<BatchJob>& job) {
  if (!job.ok()) return common::ProblemOf(job.status()).what;
  v1::JobSpec spec;
  EXPECT_TRUE(ParseJobFile("x", job->job_file, {}, &spec).ok()) << job->job_file;
  return absl::StrJoin(spec.command(), "|");
}

TEST(BatchFileTest, AScriptBecomesAJobAndNamesWhatItLeavesOut) {
  const auto job = Batch(
      "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1\n#SBATCH -p gpu --requeue --export=ALL,A=1\n"
      "#SBATCH --time=00:10:00\necho begins on $(hostname)\nsrun -p gpu python train.py\n");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_NE(job->job_file.find("python"), std::string::npos);
  EXPECT_NE(job->job_file.find("10m"), std::string::npos) << job->job_file;
  EXPECT_NE(job->job_file.find("A: \"1\""), std::string::npos) << job->job_file;
  const std::string left = absl::StrJoin(job->left_out, "\n");
  for (const char* each : {"line 3: -p gpu: there is one queue", "line 3: --requeue: ",
                           "line 5: echo begins", "line 6: srun -p gpu: there is one queue"}) {
    EXPECT_NE(left.find(each), std::string::npos) << each << " in " << left;
  }
}

// Each of them with what it would have been without a word, and with the name that lets it through.
TEST(BatchFileTest, WhatWouldMeanSomethingElseIsRefused) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"#SBATCH --array=0-7%2", "array"},
      {"#SBATCH -a 1-3", "array"},
      {"#SBATCH --dependency=afterok:1234", "dependency"},
      {"#SBATCH --begin=now+1hour", "begin"},
      {"#SBATCH -H", "hold"},
      {"#SBATCH --container-image=nvcr.io/x:1", "container-image"},
      {"#SBATCH --container-mounts=/a:/b", "container-mounts"},
      {"#SBATCH --no-container-mount-home", "no-container-mount-home"},
      {"#SBATCH --signal=B:USR1@60", "signal"},
      {"#SBATCH -w node[1-3]", "nodelist"},
      {"#SBATCH --constraint=a100", "nodelist"},
      {"#SBATCH --export=NONE", "export"},
      {"#SBATCH --export=PATH,A=1", "export"},
      {"#SBATCH hetjob", "het-group"},
      {"#SBATCH --not-an-option=7", "not-an-option"},
      {"mkdir -p out", "lines"},
      {"if [ ! -d data ]; then python prepare.py; fi", "lines"},
      {"echo begins >log", "lines"},
      {"A=1 ./prepare", "lines"},
      {"eval \"$(conda shell.bash hook)\"", "lines"},
      {"source a.sh && rm -r out", "lines"},
  };
  for (const auto& [line, name] : kRefused) {
    const std::string script =
        absl::StrCat("#!/bin/bash\n#SBATCH -n 2\n", line, "\nsrun python train.py\n");
    const auto refused = Batch(script);
    const common::Problem problem = common::ProblemOf(refused.status());
    EXPECT_EQ(problem.code, "JC1013") << line;
    EXPECT_TRUE(absl::EndsWith(problem.fix, absl::StrCat("--ignore ", name)))
        << line << ": " << problem.fix;
    EXPECT_EQ(CommandOf(Batch(script, {}, {name})), "python|train.py") << line;
    EXPECT_FALSE(Batch(script, {}, {"other"}).ok()) << line;
  }
  const auto both = Batch("#!/bin/sh\n#SBATCH -n 2 --array=1-2\n#SBATCH --hold\npython x\n");
  EXPECT_EQ(
      common::ProblemOf(both.status()).what,
      "job.sbatch would mean something else here: line 2: --array=1-2: one task would run, not "
      "each; line 3: --hold: it would start at once");
  EXPECT_FALSE(Batch("#!/bin/sh\n#SBATCH -n 2\nsrun --container-image=x python x\n").ok());
}

TEST(BatchFileTest, LinesThatSetUpTheShellRunInOneBeforeTheCommand) {
  const std::string head = "#!/bin/bash\n#SBATCH -n 2\n";
  const auto job =
      Batch(head +
            "set -e\nV=12\nexport A=1\nmodule load cuda/$V\nexport P=/x:$P\ncd sub\n"
            "source venv/bin/activate\nconda activate e\ncd $SLURM_SUBMIT_DIR\nsrun python x\n");
  EXPECT_EQ(
      CommandOf(job),
      "/bin/bash|-l|-c|set -e\nV=12\nexport A=1\nmodule load cuda/$V\nexport P=/x:$P\ncd sub\n"
      "source venv/bin/activate\nconda activate e\nexec \"$@\"|/bin/bash|python|x");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(
      absl::StrJoin(job->notes, "\n"),
      "in each rank, before the command, a login shell (/bin/bash) runs what Slurm runs once per "
      "job: "
      "module load cuda/$V; export P=/x:$P; cd sub; source venv/bin/activate; conda activate e");
  EXPECT_EQ(CommandOf(Batch("#!/usr/bin/env bash\n#SBATCH -n 2\n. ./env.sh\npython x\n")),
            "bash|-l|-c|. ./env.sh\nexec \"$@\"|bash|python|x");
  // What only the shell could evaluate does not become part of the command.
  for (const char* line : {"export D=$SCRATCH/d\npython x $D",
                           "export A=1\nmodule load x\nexport A=$A:2\npython x $A"})
    EXPECT_NE(CommandOf(Batch(head + line + "\n")).find("needs a shell to know $"),
              std::string::npos)
        << line;
  for (const char* line :
       {"N=$(nproc)\nexport OMP=$N", "export T=$SLURM_ARRAY_TASK_ID", "module load a; rm b"})
    EXPECT_EQ(common::CodeOf(Batch(head + line + "\npython x\n").status()), "JC1013") << line;
  EXPECT_EQ(
      common::CodeOf(Batch("#!/usr/bin/python3\n#SBATCH -n 2\nmodule load x\npython x\n").status()),
      "JC1013");
}

TEST(BatchFileTest, AScriptGetsItsArguments) {
  const std::string head = "#!/bin/bash\n#SBATCH -n 2\n";
  const std::vector<std::string> words = {"cfg.yaml", "a b", "--lr=0.1"};
  EXPECT_EQ(CommandOf(Batch(head + "python x $1 --o=${3}", words)),
            "python|x|cfg.yaml|--o=--lr=0.1");
  EXPECT_EQ(CommandOf(Batch(head + "python x \"$@\"", words)), "python|x|cfg.yaml|a b|--lr=0.1");
  EXPECT_EQ(CommandOf(Batch(head + "python x \"$@\"")), "python|x");
  EXPECT_EQ(CommandOf(Batch(head + "python x '$1'", words)), "python|x|$1");
  for (const auto& [line, arguments] :
       {std::pair("python x $2", words), std::pair("python x $1", std::vector<std::string>{})})
    EXPECT_NE(CommandOf(Batch(head + line, arguments)).find("reads argument $"), std::string::npos);
  EXPECT_EQ(CommandOf(Batch(head + "python x \"$@\"", {"; rm -r /", "$(id)"})),
            "python|x|; rm -r /|$(id)");
}

}  // namespace
}  // namespace muster::client
