// `ckpt pull` where the coordinator names a URL of the object store instead of sending bytes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/jobctl_process.h"
#include "tests/support/scripted_server.h"

namespace muster::client {
namespace {

using common::StrCat;
using testing::HttpAnswer;
using testing::ScriptedServer;
using testing::ServedRequest;

const std::string kBytes = std::string(40'000, 'x') + "end";

class PullFromStore : public ::testing::Test {
 protected:
  PullFromStore() {
    fake_.record.set_id(3);
    fake_.record.set_name("job-3");
    v1::Checkpoint* checkpoint = fake_.record.add_checkpoints();
    checkpoint->set_state(v1::CHECKPOINT_STATE_COMMITTED);
    checkpoint->set_step(5);
    v1::CheckpointFile* file = checkpoint->add_files();
    file->set_path("a.bin");
    file->set_size(kBytes.size());
    file->set_sha256(common::Sha256Hex(kBytes));
    fake_.on_pull = [this](const v1::PullFileRequest& request) {
      pulls_.push_back(request);
      v1::BlobChunk chunk;
      if (request.direct()) {
        chunk.set_url(url_);
      } else {
        chunk.set_offset(request.offset());
        chunk.set_data(kBytes.substr(request.offset()));
      }
      return chunk;
    };
  }
  // Whatever it met, the file is whole afterwards.
  void Pull() {
    const Ended ended = Jobctl(fake_, {"ckpt", "pull", "3", "--to", to_});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err.find("secret"), std::string::npos) << "the URL is a secret: " << ended.err;
    EXPECT_EQ(*common::ReadFile(to_ + "/a.bin"), kBytes);
  }

  FakeCoordinator fake_;
  const std::string to_ = fake_.directory() + "/to";
  std::string url_;
  std::vector<v1::PullFileRequest> pulls_;
};

TEST_F(PullFromStore, TakesTheBytesFromThere) {
  ScriptedServer store([](const ServedRequest&) { return HttpAnswer("200 OK", kBytes); });
  url_ = store.Url() + "/a?secret";
  Pull();
  EXPECT_EQ(store.Asked(), std::vector<std::string>{"GET /a?secret"});
  EXPECT_EQ(pulls_.size(), 1u) << "nothing came through the coordinator";
}

TEST_F(PullFromStore, ContinuesWhatAnInterruptedPullLeft) {
  ASSERT_EQ(mkdir(to_.c_str(), 0700), 0);
  ASSERT_TRUE(common::WriteFileDurably(to_ + "/a.bin.part", kBytes.substr(0, 30'000)).ok());
  std::string head;
  ScriptedServer store([&](const ServedRequest& request) {
    head = request.head;
    return HttpAnswer("206 Partial Content", kBytes.substr(30'000),
                      StrCat("Content-Range: bytes 30000-40002/", kBytes.size(), "\r\n"));
  });
  url_ = store.Url() + "/a?secret";
  Pull();
  EXPECT_NE(head.find("bytes=30000-"), std::string::npos) << head;
  EXPECT_EQ(pulls_.size(), 1u);
}

TEST_F(PullFromStore, WhatItCannotHaveThereComesThroughTheCoordinator) {
  const std::string answers[] = {
      HttpAnswer("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>"),  // the URL expired
      HttpAnswer("503 Slow Down", ""),
      "HTTP/1.1 200 OK\r\nContent-Length: 40003\r\n\r\n" + kBytes.substr(0, 12'345),
      "",  // the connection breaks
  };
  for (const std::string& answer : answers) {
    SCOPED_TRACE(answer.substr(0, 30));
    ScriptedServer store([&](const ServedRequest&) { return answer; });
    url_ = store.Url() + "/a?secret";
    pulls_.clear();
    Pull();
    ASSERT_EQ(pulls_.size(), 2u);
    EXPECT_FALSE(pulls_[1].direct());
    EXPECT_EQ(pulls_[1].offset(), answer.ends_with('x') ? 12'345u : 0u) << "it has that already";
    ASSERT_EQ(unlink((to_ + "/a.bin").c_str()), 0);
  }
}

TEST_F(PullFromStore, AStoreOutOfReachIsTheCoordinatorsMatter) {
  int port = 0;
  testing::ListenOnLoopback(&port);  // and closes it
  url_ = StrCat("http://127.0.0.1:", port, "/a?secret");
  Pull();
  EXPECT_EQ(pulls_.size(), 2u);
}

// As of a portal between them that answers for the store.
TEST_F(PullFromStore, OtherBytesAreNotBelieved) {
  for (const size_t size : {kBytes.size(), size_t{10}, kBytes.size() + 1}) {
    ScriptedServer store(
        [&](const ServedRequest&) { return HttpAnswer("200 OK", std::string(size, 'y')); });
    url_ = store.Url() + "/a?secret";
    pulls_.clear();
    Pull();
    ASSERT_EQ(pulls_.size(), 2u);
    EXPECT_FALSE(pulls_[1].direct());
    ASSERT_EQ(unlink((to_ + "/a.bin").c_str()), 0);
  }
}

TEST_F(PullFromStore, AnAnswerThatIsNotTheRangeIsNotTaken) {
  ASSERT_EQ(mkdir(to_.c_str(), 0700), 0);
  for (const char* status : {"416 Range Not Satisfiable", "206 Partial Content"}) {
    ASSERT_TRUE(common::WriteFileDurably(to_ + "/a.bin.part", kBytes.substr(0, 30'000)).ok());
    ScriptedServer store([&](const ServedRequest&) {
      return HttpAnswer(status, std::string(10, 'z'), "Content-Range: bytes */40003\r\n");
    });
    url_ = store.Url() + "/a?secret";
    pulls_.clear();
    Pull();
    ASSERT_EQ(pulls_.size(), 2u);
    EXPECT_EQ(pulls_[1].offset(), 30'000u) << "nothing of it was written";
    ASSERT_EQ(unlink((to_ + "/a.bin").c_str()), 0);
  }
}

}  // namespace
}  // namespace muster::client
