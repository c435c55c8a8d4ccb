// What a job may be: every rule with a value that violates it, defaults, and the description of
// shapes.
#include <gtest/gtest.h>

#include <functional>

#include "common/base/limits.h"
#include "common/job/labels.h"
#include "common/job/rules.h"
#include "common/job/shape.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "muster/v1/job.pb.h"

namespace muster::job {
namespace {

v1::JobSpec Good() {
  v1::JobSpec spec;
  spec.add_command("true");
  spec.mutable_shape()->set_processes(1);
  return spec;
}

// "JC1104: 2 ranks cannot fill 4 nodes", or nothing.
std::string Said(const absl::Status& status) {
  if (status.ok()) return "";
  const std::string text(status.message());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_TRUE(text.starts_with("[JC11") && text.find("] ") == 7) << text;
  const size_t fix = text.find("; fix: ");
  EXPECT_TRUE(fix != std::string::npos && fix + 7 < text.size()) << "no remedy: " << text;
  return text.substr(1, 6) + ": " + text.substr(9, fix - 9);
}

using Change = std::function<void(v1::JobSpec&)>;
std::string SaidOf(const Change& change) {
  v1::JobSpec spec = Good();
  change(spec);
  return Said(Validate(spec));
}

struct Rule {
  std::string says;  // how it starts
  Change breaks;
};

Change Name(std::string name) {
  return [=](v1::JobSpec& spec) { spec.set_name(name); };
}
Change Shape(uint32_t processes, uint32_t per_node, uint32_t least, uint32_t most) {
  return [=](v1::JobSpec& spec) {
    spec.mutable_shape()->set_processes(processes);
    spec.mutable_shape()->set_per_node(per_node);
    spec.mutable_shape()->set_min_nodes(least);
    spec.mutable_shape()->set_max_nodes(most);
  };
}
Change Variable(std::string name, std::string value) {
  return [=](v1::JobSpec& spec) { (*spec.mutable_env())[name] = value; };
}

TEST(JobRulesTest, EachOneIsSaidWithItsCode) {
  const Rule kRules[] = {
      {"JC1102: the job with its environment is 300021 bytes; the limit is 262144 (256 KiB)",
       Variable("A", std::string(300'000, 'x'))},
      {"JC1103: \"a/b\" is not a valid job name: a name is 1 to 100 bytes", Name("a/b")},
      {"JC1103: \".ssh\" is not a valid", Name(".ssh")},
      {"JC1103: \"..\" is not a valid", Name("..")},
      {"JC1103: \"a\\x0ab\" is not a valid", Name("a\nb")},
      {"JC1103: \"a\\xe2\\x80\\xaeb\" is not a valid", Name("a\u202Eb")},
      {"JC1103: \"\\xef\\xbb\\xbfa\" is not a valid", Name("\uFEFFa")},
      {"JC1103: \"caf\\xe9\" is not a valid", Name("caf\xe9")},
      {"JC1103: \"42\" is not a valid", Name("42")},
      {"JC1103: \"a@b\" is not a valid", Name("a@b")},
      {"JC1103: \"a b\" is not a valid", Name("a b")},
      {"JC1103: \"-a\" is not a valid", Name("-a")},
      {"JC1103: \"" + std::string(100, 'a') + "…\" is not a valid", Name(std::string(101, 'a'))},
      {"JC1105: the job has no command", [](v1::JobSpec& spec) { spec.clear_command(); }},
      {"JC1105: the job has no command", [](v1::JobSpec& spec) { spec.set_command(0, ""); }},
      {"JC1108: an argument of the command contains a NUL byte",
       [](v1::JobSpec& spec) { spec.add_command(std::string("a\0b", 3)); }},
      {"JC1104: the job asks for 4 ranks in total (processes) and for 2 on each node (per_node)",
       Shape(4, 2, 2, 2)},
      {"JC1104: nodes 4:1 is an empty range", Shape(0, 2, 4, 1)},
      {"JC1104: a job may have at most 10000 nodes, not 10001", Shape(0, 1, 1, 10'001)},
      {"JC1104: a job may have at most 10000 nodes, not 10001", Shape(100'000, 0, 10'001, 10'001)},
      {"JC1104: a range of nodes needs per_node", Shape(8, 0, 1, 4)},
      {"JC1104: 2 ranks cannot fill 4 nodes", Shape(2, 0, 4, 4)},
      {"JC1104: a job may have 1 to 100000 ranks, not 0", Shape(0, 0, 0, 0)},
      {"JC1104: a job may have 1 to 100000 ranks, not 100001", Shape(100'001, 0, 0, 0)},
      {"JC1104: a job may have 1 to 100000 ranks, not 200000", Shape(0, 100'000, 1, 2)},
      {"JC1104: a job may have 1 to 100000 ranks, not 42949672950000",
       Shape(0, UINT32_MAX, 10'000, 10'000)},
      {"JC1104: a rank may have at most 1024 devices, not 1025",
       [](v1::JobSpec& spec) { spec.mutable_shape()->mutable_device()->set_count_per_rank(1025); }},
      {"JC1104: device kind \"abacus\" is unknown",
       [](v1::JobSpec& spec) { spec.mutable_shape()->mutable_device()->set_kind("abacus"); }},
      {"JC1107: the working directory \"here\" is not absolute",
       [](v1::JobSpec& spec) { spec.set_workdir("here"); }},
      {"JC1106: \"\" is not a valid name for an environment variable", Variable("", "1")},
      {"JC1106: \"A=B\" is not a valid name", Variable("A=B", "1")},
      {"JC1106: \"A\\x0aB\" is not a valid name", Variable("A\nB", "1")},
      {"JC1106: \"A\\xe2\\x80\\x8bB\" is not a valid name", Variable("A\u200BB", "1")},
      {"JC1106: the value of environment variable \"A\" contains a NUL byte",
       Variable("A", std::string("a\0b", 3))},
      {"JC1108: priority takes a whole number from -1000000 to 1000000, not 1000001",
       [](v1::JobSpec& spec) { spec.set_priority(1'000'001); }},
      {"JC1108: restarts takes a whole number from 0 to 10000, not 10001",
       [](v1::JobSpec& spec) { spec.set_restarts(10'001); }},
      {"JC1108: node_loss_restarts takes a whole number from 1 to 10000, not 10001",
       [](v1::JobSpec& spec) { spec.set_node_loss_restarts(10'001); }},
      {"JC1108: checkpoint.keep takes a whole number from 1 to 10000, not 10001",
       [](v1::JobSpec& spec) { spec.mutable_checkpoint()->set_keep(10'001); }},
      {"JC1108: grace takes from 1ms to 1d 0h, not 86400001 ms",
       [](v1::JobSpec& spec) { spec.set_grace_ms(86'400'001); }},
      {"JC1108: stop_after takes from 1s to 1d 0h, not 999 ms",
       [](v1::JobSpec& spec) { spec.set_stop_after_ms(999); }},
      {"JC1108: max_duration takes from 1s to 365d 0h, not 9223372036854775807 ms",
       [](v1::JobSpec& spec) { spec.set_max_duration_ms(UINT64_MAX); }},
      {"JC1108: a rank may be limited to 0.01 to 1024 processors, not 0.009",
       [](v1::JobSpec& spec) { spec.mutable_shape()->mutable_limits()->set_cpu_millis(9); }},
      {"JC1108: a rank may be limited to 4 MiB to 1024 TiB of memory, not 1 KB",
       [](v1::JobSpec& spec) { spec.mutable_shape()->mutable_limits()->set_memory_bytes(1'000); }},
  };
  for (const Rule& rule : kRules) {
    const std::string said = SaidOf(rule.breaks);
    EXPECT_TRUE(said.starts_with(rule.says)) << "wanted " << rule.says << "\ngot    " << said;
  }
}

const std::string kHash(64, 'a');

// A job that brings its code.
Change Code(const std::function<void(v1::JobSpec&)>& change = nullptr) {
  return [=](v1::JobSpec& spec) {
    spec.clear_workdir();
    v1::CodeTree& code = *spec.mutable_code();
    code.set_tree(kHash);
    code.set_manifest_bytes(100);
    code.set_placement(kHash);
    code.set_placement_bytes(100);
    if (change) change(spec);
  };
}
Change Workdir(const std::string& workdir) {
  return Code([=](v1::JobSpec& spec) { spec.set_workdir(workdir); });
}
Change Install(const std::vector<std::string>& words) {
  return [=](v1::JobSpec& spec) { spec.mutable_setup()->Assign(words.begin(), words.end()); };
}
Change Outputs(const std::vector<std::string>& paths) {
  return [=](v1::JobSpec& spec) { spec.mutable_outputs()->Assign(paths.begin(), paths.end()); };
}
Change Image(const std::string& image,
             const std::function<void(v1::ContainerSpec&)>& change = nullptr) {
  return [=](v1::JobSpec& spec) {
    spec.mutable_container()->set_image(image);
    if (change) change(*spec.mutable_container());
  };
}
Change Mounted(const std::vector<std::pair<std::string, std::string>>& mounts) {
  return Image("python:3.12", [=](v1::ContainerSpec& container) {
    for (const auto& [source, target] : mounts) {
      v1::Mount* mount = container.add_mounts();
      mount->set_source(source);
      mount->set_target(target);
    }
  });
}
std::vector<std::pair<std::string, std::string>> ManyMounts(int count) {
  std::vector<std::pair<std::string, std::string>> mounts;
  for (int i = 0; i < count; ++i) mounts.emplace_back("/data", "/data-" + std::to_string(i));
  return mounts;
}
std::vector<std::string> ManyOutputs(int count) {
  std::vector<std::string> outputs;
  for (int i = 0; i < count; ++i) outputs.push_back("out-" + std::to_string(i));
  return outputs;
}

TEST(JobRulesTest, WhatAJobBringsAndTakesAlongHasRules) {
  const Rule kRules[] = {
      {"JC1107: the working directory \"/abs\" is not a path below the code", Workdir("/abs")},
      {"JC1107: the working directory \"../up\" is not", Workdir("../up")},
      {"JC1107: the working directory \"a//b\" is not", Workdir("a//b")},
      {"JC1107: the working directory \".\" is not", Workdir(".")},
      {"JC1107: the working directory \"a\\x00b\" is not", Workdir(std::string("a\0b", 3))},
      {"JC1107: the working directory \"x", Workdir(std::string(4'097, 'x'))},
      {"JC1108: code.tree \"short\" is not a SHA-256",
       Code([](auto& spec) { spec.mutable_code()->set_tree("short"); })},
      {"JC1108: code.tree \"" + std::string(64, 'A') + "\" is not a SHA-256",
       Code([](auto& spec) { spec.mutable_code()->set_tree(std::string(64, 'A')); })},
      {"JC1108: code.placement \"\" is not a SHA-256",
       Code([](auto& spec) { spec.mutable_code()->clear_placement(); })},
      {"JC1108: the tree of the code has 0 bytes; it may have 1 to 335544320",
       Code([](auto& spec) { spec.mutable_code()->clear_manifest_bytes(); })},
      {"JC1108: the placement of the code has 335544321 bytes",
       Code([](auto& spec) { spec.mutable_code()->set_placement_bytes((320 << 20) + 1); })},
      {"JC1108: code.git_commit \"main\" is not a commit",
       Code([](auto& spec) { spec.mutable_code()->set_git_commit("main"); })},
      {"JC1108: code.from \"a\\x0ab\" is too long or not text",
       Code([](auto& spec) { spec.mutable_code()->set_from("a\nb"); })},
      {"JC1108: setup names no program", Install({""})},
      {"JC1108: an argument of setup contains a NUL byte", Install({"sh", std::string("a\0b", 3)})},
      {"JC1108: setup has 1025 arguments of", Install(std::vector<std::string>(1'025, "x"))},
      {"JC1108: setup has 1 arguments of 65537 bytes", Install({std::string(65'537, 'x')})},
      {"JC1108: the output \"/abs\" is not a path below the working directory", Outputs({"/abs"})},
      {"JC1108: the output \"../x\" is not", Outputs({"../x"})},
      {"JC1108: the output \"\" is not", Outputs({""})},
      {"JC1108: the output \"runs\" is named twice", Outputs({"runs", "runs"})},
      {"JC1108: outputs names 65 paths; the limit is 64", Outputs(ManyOutputs(65))},
      {"JC1108: the container names no image", Image("")},
      {"JC1108: the image \"-v\": this is not the name of an image", Image("-v")},
      {"JC1108: the image \"a b\": this is not the name of an image", Image("a b")},
      {"JC1108: the image \"docker.io/a:1\": a tag can mean another image", Image("docker.io/a:1")},
      {"JC1108: the mount \"data\" is not an absolute path", Mounted({{"data", ""}})},
      {"JC1108: the mount \"x\" is not an absolute path", Mounted({{"/data", "x"}})},
      {"JC1108: the mount \"/a/../b\" is not an absolute path", Mounted({{"/a/../b", ""}})},
      {"JC1108: two mounts are at \"/data\" in the container",
       Mounted({{"/data", ""}, {"/other", "/data"}})},
      {"JC1108: the container has 65 mounts; the limit is 64", Mounted(ManyMounts(65))},
      {"JC1108: the container's /dev/shm may have at most 1 TiB, not",
       Image("python", [](auto& container) { container.set_shm_bytes((1ull << 40) + 1); })},
  };
  for (const Rule& rule : kRules) {
    const std::string said = SaidOf(rule.breaks);
    EXPECT_TRUE(said.starts_with(rule.says)) << "wanted " << rule.says << "\ngot    " << said;
  }
}

TEST(JobRulesTest, WhatAJobMayBringAndTakeAlongIsTaken) {
  const Change kGood[] = {
      Code(),
      Workdir("src/train"),
      Code([](auto& spec) {
        spec.mutable_code()->set_git_commit(std::string(40, 'f'));
        spec.mutable_code()->set_from("alice-laptop:/home/alice/vit");
      }),
      Install({"pip", "install", "-r", "requirements.txt"}),
      Outputs(ManyOutputs(64)),
      Outputs({"runs/a", "model.pt"}),
      Image("docker.io/library/python@sha256:" + kHash),
      Image("oci:/images/x"),
      Mounted(ManyMounts(64)),
      Mounted({{"/", "/host"}, {"/scratch", ""}}),
      Image("python", [](auto& container) { container.set_shm_bytes(1ull << 40); }),
  };
  for (const Change& change : kGood) EXPECT_EQ(SaidOf(change), "");
}

TEST(JobRulesTest, WhatLiesAtTheEdgeIsTaken) {
  const Change kGood[] = {
      Name(""),
      Name("train-small"),
      Name("grün"),
      Name("v1.2"),
      Name("3d"),
      Name(std::string(100, 'a')),
      Shape(100'000, 0, 10'000, 10'000),
      Shape(0, 10, 10'000, 10'000),
      Shape(0, 8, 1, 4),
      Shape(0, 8, 0, 0),
      Variable("BASH_FUNC_x%%", "() { :\n}"),
      [](v1::JobSpec& spec) { spec.set_workdir("/"); },
      [](v1::JobSpec& spec) { spec.set_priority(-1'000'000); },
      [](v1::JobSpec& spec) { spec.set_grace_ms(86'400'000); },
      [](v1::JobSpec& spec) { spec.set_stop_after_ms(1'000); },
      [](v1::JobSpec& spec) { spec.mutable_shape()->mutable_device()->set_count_per_rank(1024); },
  };
  for (const Change& change : kGood) EXPECT_EQ(SaidOf(change), "");
}

TEST(JobRulesTest, OfSeveralBadVariablesTheFirstByNameIsSaid) {
  for (int round = 0; round < 8; ++round) {  // a map's order varies
    const std::string said = SaidOf([](v1::JobSpec& spec) {
      for (const char* name : {"D=", "B=", "C=", "E="}) (*spec.mutable_env())[name] = "1";
    });
    EXPECT_EQ(said, "JC1106: \"B=\" is not a valid name for an environment variable");
  }
}

Change Label(std::string key, std::string value) {
  return [=](v1::JobSpec& spec) { (*spec.mutable_labels())[key] = value; };
}

TEST(JobLabelsTest, HaveTheCharactersAndLengthsOfKubernetes) {
  const std::string long_name(63, 'a');
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"team", "vision"},
                                                        {"a", ""},
                                                        {"Sweep_1.lr-2", "0.1"},
                                                        {"example.com/team", "B"},
                                                        {std::string(253, 'x')
                                                                 .replace(60, 1, ".")
                                                                 .replace(120, 1, ".")
                                                                 .replace(180, 1, ".")
                                                                 .replace(240, 1, ".") +
                                                             "/" + long_name,
                                                         long_name}}) {
    EXPECT_EQ(SaidOf(Label(key, value)), "") << key;
  }
  for (const std::string& key :
       {std::string(), std::string("-a"), std::string("a-"), std::string("a b"),
        std::string("a/b/c"), std::string("/a"), std::string("a/"), std::string("Example.com/a"),
        std::string("a..b/c"), std::string("k\xc3\xbc"), std::string("a\nb"), std::string("a=b"),
        long_name + "a", std::string(254, 'x') + "/a"}) {
    EXPECT_TRUE(SaidOf(Label(key, "v")).find("is not a valid key of a label") != std::string::npos)
        << key;
  }
  for (const std::string& value :
       {std::string("-a"), std::string("a."), std::string("a b"), std::string("a/b"),
        std::string("a,b"), std::string("\xff"), long_name + "a"}) {
    EXPECT_TRUE(SaidOf(Label("key", value)).starts_with("JC1108: ")) << value;
  }
  EXPECT_EQ(SaidOf(Label("key", "a\033b")),
            "JC1108: \"a\\x1bb\" is not a valid value of the label key: a value is up to 63 "
            "letters, digits, -, _ and ., a letter or digit first and last");
}

TEST(JobLabelsTest, AreCountedAndTheFirstBadOneByKeyIsSaid) {
  const auto many = [](int count) {
    return [count](v1::JobSpec& spec) {
      for (int i = 0; i < count; ++i) (*spec.mutable_labels())["k" + std::to_string(i)] = "v";
    };
  };
  EXPECT_EQ(SaidOf(many(32)), "");
  EXPECT_EQ(SaidOf(many(33)), "JC1108: the job has 33 labels; the limit is 32");
  for (int round = 0; round < 8; ++round) {  // a map's order varies
    const std::string said = SaidOf([](v1::JobSpec& spec) {
      for (const char* key : {"d ", "b ", "c ", "e "}) (*spec.mutable_labels())[key] = "1";
    });
    EXPECT_TRUE(said.starts_with("JC1108: \"b \" is not a valid key")) << said;
  }
}

TEST(JobLabelsTest, SelectByTermsAsKubectlDoes) {
  LabelMap labels;
  labels["team"] = "vision";
  labels["empty"] = "";
  const auto meets = [&labels](const std::vector<std::string>& texts) {
    const auto terms = ParseLabelTerms(texts);
    EXPECT_TRUE(terms.ok()) << terms.status();
    return terms.ok() && MeetsLabelTerms(labels, *terms);
  };
  EXPECT_TRUE(meets({}));
  EXPECT_TRUE(meets({"team=vision"}));
  EXPECT_TRUE(meets({"team==vision"}));
  EXPECT_FALSE(meets({"team=Vision"}));
  EXPECT_TRUE(meets({"empty="}));
  EXPECT_FALSE(meets({"missing="}));
  EXPECT_TRUE(meets({"team!=speech"}));
  EXPECT_FALSE(meets({"team!=vision"}));
  EXPECT_TRUE(meets({"missing!=x"})) << "also without the key";
  EXPECT_TRUE(meets({"team"}));
  EXPECT_FALSE(meets({"missing"}));
  EXPECT_TRUE(meets({"!missing"}));
  EXPECT_FALSE(meets({"!team"}));
  EXPECT_FALSE(meets({"team=vision", "missing"})) << "all must hold";
}

TEST(JobLabelsTest, TermsAndPairsThatAreNoneAreRefused) {
  for (const char* text : {"", "=v", "!", "a b", "k=v=w", "!=v", "k!!=v", "!k=v"}) {
    const absl::Status said = ParseLabelTerm(text).status();
    EXPECT_EQ(common::CodeOf(said), "JC1004") << text;
  }
  EXPECT_EQ(common::CodeOf(ParseLabelTerms(std::vector<std::string>(33, "k")).status()), "JC1004");
  EXPECT_EQ(common::CodeOf(ParseLabel("team").status()), "JC1004");
  EXPECT_EQ(common::CodeOf(ParseLabel("te am=x").status()), "JC1108");
  EXPECT_EQ(ParseLabel("team=")->second, "");
}

v1::Shape Completed(uint32_t total, const Change& asked, std::string* said = nullptr) {
  v1::JobSpec spec;
  asked(spec);
  const std::string error = Said(Complete(total, spec.mutable_shape()));
  if (said != nullptr) *said = error;
  return spec.shape();
}

TEST(JobShapeTest, WhatNobodySaidIsCompleted) {
  EXPECT_EQ(DescribeShape(Completed(0, Shape(0, 0, 0, 0))), "1 rank");
  EXPECT_EQ(DescribeShape(Completed(0, Shape(0, 0, 3, 3))), "3 ranks on 3 nodes");
  EXPECT_EQ(DescribeShape(Completed(0, Shape(0, 4, 0, 0))), "1 node × 4 ranks");
  EXPECT_EQ(DescribeShape(Completed(8, Shape(0, 0, 0, 0))), "8 ranks");
  EXPECT_EQ(Completed(8, Shape(2, 0, 0, 0)).device().count_per_rank(), 4u);
  EXPECT_EQ(Completed(8, Shape(0, 2, 2, 2)).device().count_per_rank(), 2u);
}

TEST(JobShapeTest, ATotalOfDevicesThatCannotBeSharedIsRefused) {
  std::string said;
  Completed(8, Shape(3, 0, 0, 0), &said);
  EXPECT_EQ(said, "JC1104: 8 devices cannot be divided evenly among 3 ranks");
  Completed(8, Shape(0, 2, 1, 4), &said);
  EXPECT_EQ(said, "JC1104: a total number of devices cannot be combined with a range of nodes");
}

TEST(JobShapeTest, IsDescribedInRanksAndInDevices) {
  const auto said = [](const Change& asked) {
    v1::JobSpec spec;
    asked(spec);
    spec.mutable_shape()->mutable_device()->set_kind("gpu");
    spec.mutable_shape()->mutable_device()->set_count_per_rank(2);
    return DescribeShape(spec.shape()) + " | " + DescribeDemand(spec.shape(), "gpu");
  };
  EXPECT_EQ(said(Shape(8, 0, 0, 0)), "8 ranks, 2 gpu each | 16 gpu");
  EXPECT_EQ(said(Shape(8, 0, 2, 2)), "8 ranks on 2 nodes, 2 gpu each | 16 gpu on 2 nodes");
  EXPECT_EQ(said(Shape(0, 4, 0, 0)), "1 node × 4 ranks, 2 gpu each | 1 node with 8 gpu");
  EXPECT_EQ(said(Shape(0, 4, 2, 2)), "2 nodes × 4 ranks, 2 gpu each | 2 nodes with 8 gpu each");
  EXPECT_EQ(said(Shape(0, 4, 1, 4)),
            "1 to 4 nodes × 4 ranks, 2 gpu each | 1 to 4 nodes with 8 gpu each");
  v1::Shape shape;
  shape.set_processes(1);
  shape.mutable_device()->set_kind("gpu");
  shape.mutable_device()->set_model("h100");
  EXPECT_EQ(DescribeShape(shape), "1 rank, 1 gpu (h100) each");
  ASSERT_TRUE(ParseCpus("0.5", shape.mutable_limits()).ok());
  ASSERT_TRUE(ParseRankMemory("512MiB", shape.mutable_limits()).ok());
  EXPECT_EQ(DescribeShape(shape),
            "1 rank, 1 gpu (h100) each, at most 0.5 cpus and 512 MiB of memory per rank");
  EXPECT_EQ(DescribeDemand(shape, "gpu"), "1 gpu of model h100");
  EXPECT_EQ(DescribeWorld(3, 1), "3 ranks on 1 node");
}

TEST(JobDevicesTest, AreReadFromOneWord) {
  struct Text {
    std::string_view text;
    std::string kind;
    std::string model;
    uint64_t memory = 0;
    uint32_t total = 0;
  };
  for (const Text& each : {
           Text{"cpu", "cpu"},
           Text{"GPU", "gpu"},
           Text{"cuda", "gpu"},
           Text{"nvidia", "gpu"},
           Text{"npu", "npu"},
           Text{"ascend", "npu"},
           Text{"h100", "gpu", "h100"},
           Text{"910b", "npu", "910b"},
           Text{"npu-910b", "npu", "910b"},
           Text{"ascend910", "npu", "ascend910"},
           Text{"gpu:8", "gpu", "", 0, 8},
           Text{"npu>=64GB", "npu", "", 64'000'000'000},
           Text{"h100>=80gb:16", "gpu", "h100", 80'000'000'000, 16},
       }) {
    v1::DeviceConstraint device;
    uint32_t total = 0;
    EXPECT_EQ(Said(ParseDevices(each.text, &device, &total)), "") << each.text;
    EXPECT_EQ(device.kind(), each.kind) << each.text;
    EXPECT_EQ(device.model(), each.model) << each.text;
    EXPECT_EQ(device.min_memory_bytes(), each.memory) << each.text;
    EXPECT_EQ(total, each.total) << each.text;
  }
  for (const char* wrong :
       {"", ":8", "gpu:0", "gpu:x", "gpu:100001", "gpu>=12", ">=64GB", "g pu"}) {
    v1::DeviceConstraint device;
    uint32_t total = 0;
    EXPECT_TRUE(Said(ParseDevices(wrong, &device, &total)).starts_with("JC1104: ")) << wrong;
  }
}

}  // namespace
}  // namespace muster::job
