// An upload against a coordinator of a map: what is sent, what a broken stream costs, what is refused.
#include "client/code/code_upload.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "client/code/code_sync.h"
#include "client/text/code_text.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "tree/unpack.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;

std::string NameOf(const std::string& bytes) {
  const tree::Digest digest = tree::DigestOf(bytes);
  return {digest.bytes.begin(), digest.bytes.end()};
}

// The coordinator's side: objects by name, whole or begun.
class Store {
 public:
  CodeTransport Endpoint() {
    return {.prepare = [this](const auto& request) { return Prepare(request); },
            .push = [this](const NextChunk& next) { return Push(next); },
            .again =
                [this](const absl::Status& lost, int) {
                  ++again;
                  return patience-- > 0 ? absl::OkStatus() : lost;
                }};
  }

  std::map<std::string, std::string> objects;
  std::vector<int> asked;  // objects of each request
  std::vector<std::string> projects;
  int pushes = 0;
  int again = 0;
  int patience = 100;
  uint64_t received = 0;
  uint64_t break_after = UINT64_MAX;  // bytes of a stream
  std::function<void()> before_push;
  absl::Status push_error;
  bool knows_too_much = false;

 private:
  absl::StatusOr<v1::PrepareObjectsResponse> Prepare(const v1::PrepareObjectsRequest& request) {
    asked.push_back(request.objects_size());
    v1::PrepareObjectsResponse response;
    for (const v1::ObjectName& name : request.objects()) {
      const auto found = objects.find(name.sha256());
      const uint64_t have = found == objects.end() ? 0 : found->second.size();
      response.add_offsets(knows_too_much ? name.size() + 1 : have);
    }
    return response;
  }

  absl::StatusOr<v1::PushObjectsResponse> Push(const NextChunk& next) {
    ++pushes;
    if (before_push) before_push();
    std::string name;
    uint64_t size = 0, of_stream = 0;
    while (true) {
      v1::ObjectChunk chunk;
      ASSIGN_OR_RETURN(const bool more, next(&chunk));
      if (!more) break;
      EXPECT_LE(chunk.data().size(), kObjectChunkBytes);
      if (of_stream == 0) projects.push_back(chunk.project());
      if (!chunk.sha256().empty()) {
        name = chunk.sha256();
        size = chunk.size();
        EXPECT_EQ(chunk.offset(), objects[name].size());
      }
      objects[name] += chunk.data();
      received += chunk.data().size();
      of_stream += chunk.data().size();
      if (objects[name].size() == size) {
        EXPECT_EQ(NameOf(objects[name]), name);
      }
      if (of_stream >= break_after) return absl::UnavailableError("cut");
    }
    if (!push_error.ok()) {
      objects.clear();
      return push_error;
    }
    return v1::PushObjectsResponse();
  }
};

class CodeUploadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/upload.XXXXXX";
    base_ = mkdtemp(path);
    root_ = base_ + "/vit";
    fs::create_directories(root_ + "/sub");
    fs::create_directories(base_ + "/cache");
    Write("train.py", "print(1)\n");
    Write("sub/model.py", std::string(200'000, 'm'));
    Write("weights.bin", std::string((2 << 20) + 5, 'w'));
  }
  void TearDown() override { fs::remove_all(base_); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ + "/" + name, std::ios::binary) << text;
  }
  absl::StatusOr<UploadedTree> Upload() {
    const UploadOptions options = {
        .root = root_,
        .project = "vision",
        .cache_directory = base_ + "/cache",
        .objects_per_request = per_request_,
        // As if all files had been written long ago: none is racy.
        .now_ms = [] { return static_cast<int64_t>(time(nullptr)) * 1'000 + 60'000; },
        .on_progress = [this](const UploadProgress& progress) { progress_ = progress; }};
    const CodeTransport endpoint = store_.Endpoint();
    return UploadTree(endpoint, options);
  }
  std::string Code(const absl::Status& status) const { return common::CodeOf(status); }
  // What the store has of a tree, written out.
  void ExpectWhole(const UploadedTree& uploaded) {
    const auto manifest = tree::Decode(store_.objects[NameOf(uploaded.snapshot.encoded)]);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    const tree::Digest& digest = uploaded.placement;
    const auto placement =
        tree::DecodePlacement(store_.objects[{digest.bytes.begin(), digest.bytes.end()}], *manifest,
                              uploaded.snapshot.identity);
    ASSERT_TRUE(placement.ok()) << placement.status();
    for (const tree::Object& object : placement->objects) {
      const std::string name(object.name.bytes.begin(), object.name.bytes.end());
      EXPECT_EQ(NameOf(store_.objects[name]), name);
    }
  }

  std::string base_, root_;
  size_t per_request_ = kObjectsPerRequest;
  Store store_;
  UploadProgress progress_;
};

TEST_F(CodeUploadTest, AllIsSentOnceAndThenNothing) {
  const auto first = Upload();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->snapshot.counts.files, 3u);
  EXPECT_EQ(first->sent_bytes, store_.received);
  EXPECT_EQ(progress_.bytes_sent, progress_.bytes_to_send);
  EXPECT_EQ(store_.projects, std::vector<std::string>{"vision"});
  ExpectWhole(*first);
  const auto second = Upload();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->sent_bytes, 0u);
  EXPECT_EQ(second->snapshot.counts.files_read, 0u);
  EXPECT_EQ(second->snapshot.identity, first->snapshot.identity);
  EXPECT_EQ(store_.pushes, 1);
}

TEST_F(CodeUploadTest, OnlyWhatChangedIsSent) {
  ASSERT_TRUE(Upload().ok());
  const uint64_t before = store_.received;
  Write("train.py", "print(22)\n");
  const auto second = Upload();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_LT(store_.received - before, 10'000u);
  ExpectWhole(*second);
}

TEST_F(CodeUploadTest, ABrokenStreamIsContinuedWhereItBroke) {
  store_.break_after = 300'000;
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_GT(store_.again, 3);
  EXPECT_EQ(store_.received, done->sent_bytes) << "nothing twice";
  ExpectWhole(*done);
}

TEST_F(CodeUploadTest, AStreamThatBringsNothingIsGivenUp) {
  int tries = 0;
  const CodeTransport endpoint = {
      .prepare = store_.Endpoint().prepare,
      .push = [](const NextChunk&) { return absl::UnavailableError("cut"); },
      .again = [&](const absl::Status&, int) { return ++tries, absl::OkStatus(); }};
  const UploadOptions options = {.root = root_, .now_ms = [] { return int64_t{1}; }};
  EXPECT_EQ(UploadTree(endpoint, options).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GT(tries, 2);
  EXPECT_LT(tries, 20);
}

TEST_F(CodeUploadTest, WhatTheCoordinatorLostIsMadeAgain) {
  for (int i = 0; i < 40; ++i)
    Write("file" + std::to_string(i), std::string(100'000, 'a' + i % 26) + std::to_string(i));
  ASSERT_TRUE(Upload().ok());
  // Its pack has a file that is no longer there: it cannot be made again as it was.
  fs::remove(root_ + "/file3");
  store_.objects.clear();
  const auto second = Upload();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->sent_bytes, 3'000'000u);
  ExpectWhole(*second);
}

TEST_F(CodeUploadTest, AFileThatChangesMeanwhileIsReadAgainAndThenNamed) {
  int changes = 1;
  store_.before_push = [&] {
    if (changes-- > 0) Write("train.py", "print(" + std::string(100 + changes, '3') + ")\n");
  };
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(store_.pushes, 2);
  ExpectWhole(*done);
  changes = 1'000;
  store_.objects.clear();
  const absl::Status status = Upload().status();
  EXPECT_EQ(Code(status), "JC1712");
  EXPECT_NE(common::ProblemOf(status).what.find("train.py changed"), std::string::npos) << status;
  EXPECT_NE(common::ProblemOf(status).fix.find(".musterignore"), std::string::npos);
}

TEST_F(CodeUploadTest, WhatATreeCannotContainIsRefusedByName) {
  fs::create_symlink("/etc/passwd", root_ + "/link");
  const absl::Status status = Upload().status();
  EXPECT_EQ(Code(status), "JC1710");
  EXPECT_NE(common::ProblemOf(status).what.find("link"), std::string::npos);
  EXPECT_NE(common::ProblemOf(status).fix.find("/vit/.musterignore"), std::string::npos);
  fs::remove_all(root_);
  EXPECT_EQ(Code(Upload().status()), "JC1713");
}

TEST_F(CodeUploadTest, ManyObjectsAreAskedForInSeveralRequests) {
  per_request_ = 2;
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(store_.asked,
            (std::vector<int>{2, 2}));  // a large file, a pack; placement and manifest
  ExpectWhole(*done);
}

TEST_F(CodeUploadTest, AnswersWithoutSenseAndRefusalsEndIt) {
  store_.knows_too_much = true;
  EXPECT_EQ(Code(Upload().status()), "JC1716");
  store_.knows_too_much = false;
  store_.push_error = common::MakeProblem(absl::StatusCode::kResourceExhausted,
                                          {.code = "JC1605", .what = "the disk is full"});
  EXPECT_EQ(Code(Upload().status()), "JC1605");
}

TEST_F(CodeUploadTest, ADamagedCacheIsForgottenOnce) {
  ASSERT_TRUE(Upload().ok());
  store_.objects.clear();
  int pushes = 0;
  store_.before_push = [&] {
    store_.push_error = ++pushes == 1 ? absl::DataLossError("other bytes") : absl::OkStatus();
  };
  const auto done = Upload();
  EXPECT_TRUE(done.ok()) << done.status();
  store_.objects.clear();
  store_.before_push = [&] { store_.push_error = absl::DataLossError("other bytes"); };
  EXPECT_TRUE(absl::IsDataLoss(Upload().status()));
}

TEST(UploadTextTest, WhatIsReadAndThenHowFastItIsSent) {
  EXPECT_EQ(UploadText({.files_read = 1'204, .bytes_read = 18'000'000}, 0),
            "code: reading, 1,204 files, 18 MB");
  EXPECT_EQ(
      UploadText(
          {.files_read = 1, .bytes_read = 9, .bytes_sent = 2'000'000, .bytes_to_send = 8'000'000},
          0.5),
      "code: 1 file read; sent 2.0 MB of 8.0 MB, 4.0 MB/s");
}

TEST(WithCommasTest, NumbersAreReadable) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1'204), "1,204");
  EXPECT_EQ(WithCommas(1'234'567), "1,234,567");
}

}  // namespace
}  // namespace muster::client
