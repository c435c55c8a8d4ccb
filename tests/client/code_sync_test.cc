// The real jobctl sends a directory to a coordinator of a map: what it prints, what it submits.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "tests/client/fake_coordinator.h"
#include "tests/client/jobctl_process.h"
#include "tree/digest.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;

class CodeSyncTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/sync.XXXXXX";
    base_ = mkdtemp(path);
    root_ = base_ + "/vit";
    fs::create_directories(root_);
    std::ofstream(root_ + "/train.py") << "print(1)\n";
    std::ofstream(root_ + "/data.bin") << std::string(1'500'000, 'd');
    fake_.protocol = 3;
    fake_.submitted.set_job(3);
    fake_.submitted.set_name("calm-otter-3");
  }
  void TearDown() override { fs::remove_all(base_); }
  Process Start(std::vector<std::string> words) {
    words.insert(words.begin() + 1, "--sync=" + root_);
    return Process({.server = fake_.endpoint(), .cache = base_ + "/cache"}, std::move(words));
  }

  std::string base_, root_;
  FakeCoordinator fake_;
};

TEST_F(CodeSyncTest, OneLineTellsWhatWasSentAndTheJobNamesIt) {
  const Ended first = Start({"submit", "-o", "name", "--outputs", "results", "--", "train"}).End();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, "calm-otter-3\n");
  EXPECT_NE(first.err.find("code: 2 files, 1.5 MB; sent 1.5 MB in 0."), std::string::npos)
      << first.err;
  EXPECT_EQ(first.err.find('\r'), std::string::npos) << "a pipe gets no progress";
  const v1::JobSpec spec = fake_.last_submit().spec();
  EXPECT_EQ(spec.code().tree().size(), 64u);
  EXPECT_EQ(spec.code().files(), 2u);
  EXPECT_EQ(spec.code().bytes(), 1'500'009u);
  EXPECT_TRUE(spec.code().from().ends_with(":" + root_)) << spec.code().from();
  EXPECT_EQ(spec.workdir(), "");
  EXPECT_EQ(spec.outputs(0), "results");
  EXPECT_EQ(fake_.objects.size(), 4u);  // a large file, a pack, the placement, the manifest

  const Ended second = Start({"submit", "--", "train"}).End();
  EXPECT_NE(second.err.find("code: 2 files, 1.5 MB; nothing changed\n"), std::string::npos)
      << second.err;
}

TEST_F(CodeSyncTest, AnOlderCoordinatorIsNotSentWhatItWouldIgnore) {
  fake_.protocol = 2;
  for (const Ended& ended : {Start({"submit", "--", "train"}).End(),
                             Jobctl(fake_, {"submit", "--setup", "make", "--", "train"}),
                             Jobctl(fake_, {"run", "--image", "x", "--", "train"})}) {
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.err.find("[JC1715]"), std::string::npos) << ended.err;
  }
  EXPECT_TRUE(fake_.objects.empty());
}

TEST_F(CodeSyncTest, ABrokenStreamIsResumedWithoutAWord) {
  fake_.pushes_left = 2;
  const Ended ended = Start({"submit", "--", "train"}).End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_LT(fake_.pushes_left, INT_MAX) << "there was a second stream";
  EXPECT_TRUE(ended.err.starts_with("code: 2 files, 1.5 MB; sent ")) << ended.err;
  EXPECT_TRUE(fake_.last_submit().spec().has_code());
}

TEST_F(CodeSyncTest, CtrlCDuringAnUploadLeavesNoJob) {
  std::promise<void> pushed;
  fake_.on_pushed = [&] { pushed.set_value(); };
  fake_.holds_pushes = true;
  Process process = Start({"run", "--", "train"});
  ASSERT_EQ(pushed.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  process.Signal(SIGINT);
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_NE(ended.err.find("interrupted; no job was submitted"), std::string::npos) << ended.err;
  EXPECT_EQ(fake_.last_submit().spec().command_size(), 0);
}

TEST_F(CodeSyncTest, WhatCannotBeSentIsListedWithTheFix) {
  fs::create_symlink("/etc", root_ + "/link");
  const Ended ended = Start({"submit", "--", "train"}).End();
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("has 1 entry that cannot be sent [JC1710]\n  link: "), std::string::npos)
      << ended.err;
  EXPECT_NE(ended.err.find("fix:   remove them, or list them in " + root_ + "/.musterignore"),
            std::string::npos)
      << ended.err;
}

TEST_F(CodeSyncTest, TwoJobsCodeIsComparedFileByFile) {
  const auto submit = [&](const std::string& name) {
    EXPECT_EQ(Start({"submit", "--", "train"}).End().code, 0);
    v1::JobRecord& record = fake_.records[name];
    record.set_id(fake_.records.size());
    record.set_name(name);
    *record.mutable_spec() = fake_.last_submit().spec();
    record.mutable_spec()->clear_env();
  };
  submit("a");
  std::ofstream(root_ + "/train.py") << "print(22)\n";
  std::ofstream(root_ + "/new.py") << "x";
  fs::remove(root_ + "/data.bin");
  submit("b");
  for (const auto& [name, bytes] : fake_.objects)
    fake_.objects_by_hex[tree::Hex(tree::DigestOf(bytes))] = bytes;
  const Ended text = Jobctl(fake_, {"diff", "a", "b"});
  EXPECT_EQ(text.code, 1) << text.err;
  EXPECT_TRUE(text.out.starts_with("--- a\n+++ b\n-code: ")) << text.out;
  EXPECT_TRUE(
      text.out.ends_with("\n3 files of the code:\n- data.bin  1.5 MB\n+ new.py  1 B\n"
                         "~ train.py  10 B, was 9 B\n"))
      << text.out;
  const Ended json = Jobctl(fake_, {"diff", "a", "b", "-o", "json"});
  EXPECT_NE(json.out.find("{\"path\": \"new.py\", \"change\": \"added\", \"a\": null, \"b\": "
                          "{\"size\": 1, "),
            std::string::npos)
      << json.out;
  EXPECT_EQ(Jobctl(fake_, {"diff", "a", "a"}).code, 0);
  // Other bytes than the job names.
  fake_.objects_by_hex[fake_.records["b"].spec().code().tree()][20] ^= 1;
  const Ended damaged = Jobctl(fake_, {"diff", "a", "b"});
  EXPECT_NE(damaged.err.find("the files cannot be compared: the coordinator has other bytes"),
            std::string::npos)
      << damaged.err;
  EXPECT_EQ(damaged.code, 1);
}

TEST_F(CodeSyncTest, WhatSetupPrintedIsShownByNode) {
  fake_.record.set_id(3);
  fake_.record.mutable_spec()->add_setup("make");
  EXPECT_NE(Jobctl(fake_, {"logs", "3", "--setup"}).err.find("no node has reported"),
            std::string::npos);
  for (const char* name : {"n1", "n2"}) {
    if (fake_.record.attempts().empty()) fake_.record.add_attempts();
    v1::NodePart* part = fake_.record.mutable_attempts(0)->add_parts();
    part->set_node(name);
    part->mutable_preparation()->set_ran_setup(part->node() == "n1");
    part->mutable_preparation()->set_setup_ms(1'500);
    part->mutable_preparation()->set_setup_output("built\x1b[2J\nend");
  }
  EXPECT_EQ(Jobctl(fake_, {"logs", "3", "--setup"}).out,
            "[n1] setup took 1.5s\n[n1] built\\x1b[2J\n[n1] end\n"
            "[n2] setup was done before; it took 1.5s\n[n2] built\\x1b[2J\n[n2] end\n");
  EXPECT_EQ(Jobctl(fake_, {"logs", "3", "--setup", "-f"}).code, 2);
}

TEST_F(CodeSyncTest, WarningsAreShown) {
  fs::create_symlink("absent", root_ + "/dangling");
  const Ended ended = Start({"submit", "--", "train"}).End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("code: dangling: is a link to absent, which is not part of the tree\n"),
            std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace muster::client
