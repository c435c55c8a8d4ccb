// What show, diff and rerun tell of a job's code, setup and container.
#include "client/text/code_text.h"

#include <gtest/gtest.h>

#include "client/code/code_difference.h"
#include "client/text/job_text.h"

namespace muster::client {
namespace {

v1::JobSpec SpecWithCode() {
  v1::JobSpec spec;
  spec.add_command("train");
  spec.mutable_shape()->set_processes(1);
  v1::CodeTree* code = spec.mutable_code();
  code->set_tree("3f9a61c07b2e" + std::string(52, '0'));
  code->set_files(1'204);
  code->set_bytes(18'000'000);
  code->set_git_commit("1a2b3c4d5e6f" + std::string(28, '0'));
  code->set_git_dirty(true);
  code->set_from("laptop:/home/alice/vit 2");
  spec.set_workdir("src");
  for (const char* word : {"/bin/sh", "-e", "-c", "make all"}) spec.add_setup(word);
  spec.add_outputs("results");
  spec.mutable_container()->set_image("docker.io/x");
  v1::Mount* mount = spec.mutable_container()->add_mounts();
  mount->set_source("/data");
  mount->set_read_only(true);
  spec.mutable_container()->set_shm_bytes(uint64_t{8} << 30);
  return spec;
}

TEST(CodeTextTest, CodeSetupAndContainerInOneLineEach) {
  v1::JobSpec spec = SpecWithCode();
  EXPECT_EQ(CodeText(spec.code()),
            "3f9a61c07b2e: 1,204 files, 18 MB, commit 1a2b3c4d5e6f with changes, from "
            "laptop:/home/alice/vit 2");
  EXPECT_EQ(DirectoryText(spec), "src of the code");
  EXPECT_EQ(SetupText(spec), "make all");
  EXPECT_EQ(ContainerText(spec.container()), "docker.io/x, /data read-only, 8 GiB of /dev/shm");
  spec.clear_setup();
  spec.add_setup("make");
  spec.add_setup("a b");
  EXPECT_EQ(SetupText(spec), "make 'a b'");
  spec.clear_code();
  spec.set_workdir("/data");
  EXPECT_EQ(DirectoryText(spec), "/data");
}

TEST(CodeTextTest, APreparationTellsWhatItDidOrIsDoing) {
  const v1::JobSpec spec = SpecWithCode();
  v1::Preparation preparation;
  preparation.set_doing("fetching code: 1 MB of 2 MB");
  EXPECT_EQ(PreparationText(preparation, spec), "fetching code: 1 MB of 2 MB");
  preparation.clear_doing();
  preparation.set_setup_ms(12'100);
  EXPECT_EQ(PreparationText(preparation, spec), "code was there; setup cached (it took 12s)");
  preparation.set_fetched_bytes(18'000'000);
  preparation.set_ran_setup(true);
  preparation.set_image("sha256:abc");
  EXPECT_EQ(PreparationText(preparation, spec),
            "code: 18 MB fetched; setup took 12s; image sha256:abc");
}

TEST(CodeTextTest, TheLineThatRepeatsAJobSendsTheSameDirectory) {
  EXPECT_EQ(ReproduceLine(SpecWithCode()),
            "jobctl run -n 1 '--sync=/home/alice/vit 2' --workdir src --setup 'make all' --outputs "
            "results --image docker.io/x -- train");
}

TEST(CodeDifferenceTest, WhatWasAddedRemovedAndChanged) {
  const auto entry = [](const char* path, tree::Kind kind, uint64_t size, const char* content) {
    return tree::Entry{
        .path = path, .kind = kind, .size = size, .content = tree::DigestOf(content)};
  };
  using enum tree::Kind;
  tree::Manifest a, b;
  a.entries = {entry("d", kDirectory, 0, ""), entry("d/old", kFile, 3, "old"),
               entry("run.sh", kFile, 2, "rs"), entry("same", kFile, 1, "s"),
               entry("x", kFile, 1'100, "1")};
  b.entries = {entry("run.sh", kExecutable, 2, "rs"), entry("same", kFile, 1, "s"),
               entry("x", kFile, 1'200, "2"), entry("y", kFile, 0, "")};
  const auto differences = DifferencesOf(a, b);
  EXPECT_EQ(DifferenceText(differences),
            "- d/old  3 B\n~ run.sh  2 B, now executable\n~ x  1.2 KB, was 1.1 KB\n+ y  0 B\n");
  EXPECT_TRUE(DifferencesOf(a, a).empty());
  EXPECT_EQ(DifferenceJson({}).text, "[]");
  // A file where a directory was.
  b.entries = {entry("d", kFile, 1, "d")};
  EXPECT_EQ(DifferencesOf(a, b).front().path, "d");
  a.entries.clear();
  for (int i = 0; i < 53; ++i) a.entries.push_back(entry("f", kFile, 1, "f"));
  for (int i = 0; i < 53; ++i) a.entries[i].path = "f" + std::to_string(100 + i);
  EXPECT_TRUE(DifferenceText(DifferencesOf(a, tree::Manifest()))
                  .ends_with("- f149  1 B\n… and 3 more files (-o json has all)\n"));
}

}  // namespace
}  // namespace muster::client
