// What coordinators may rely on, whichever store keeps their objects. Each of S3's servers is real.
#include "coordinator/stores/objects.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"
#include "common/http/transfers.h"
#include "common/text/strings.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/s3/objects.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/object_servers.h"

namespace muster::coordinator {
namespace {

using absl::StatusCode;
using common::StrCat;
using std::chrono::seconds;

// A store that is empty at first. Each opening is another coordinator's.
class ObjectEngine {
 public:
  virtual ~ObjectEngine() = default;
  virtual std::string Skipped() const { return ""; }
  virtual bool RefusesUsedKeys() const { return true; }
  virtual bool HasPresignedUrls() const { return true; }
  virtual std::unique_ptr<Objects> Open() = 0;
};

class FilesEngine final : public ObjectEngine {
 public:
  bool HasPresignedUrls() const override { return false; }
  std::unique_ptr<Objects> Open() override { return *ObjectFiles::Open(dir_.path()); }

 private:
  const TempDir dir_;
};

class S3Engine final : public ObjectEngine {
 public:
  S3Engine(const ObjectServer& server, bool refuses_used_keys)
      : server_(server), refuses_used_keys_(refuses_used_keys) {}
  std::string Skipped() const override { return server_.skipped; }
  bool RefusesUsedKeys() const override { return refuses_used_keys_; }
  std::unique_ptr<Objects> Open() override {
    return *s3::S3Objects::Open(OptionsOf(server_.port, prefix_));
  }

 private:
  static std::string NextPrefix() {
    static std::atomic<int> number = 0;
    return StrCat("t", ++number);
  }
  const ObjectServer& server_;
  const bool refuses_used_keys_;
  const std::string prefix_ = NextPrefix();
};

struct ObjectEngineKind {
  std::string name;
  std::function<std::unique_ptr<ObjectEngine>()> make;
  friend void PrintTo(const ObjectEngineKind& kind, std::ostream* to) { *to << kind.name; }
};

class ObjectsContract : public ::testing::TestWithParam<ObjectEngineKind> {
 protected:
  void SetUp() override {
    engine_ = GetParam().make();
    if (!engine_->Skipped().empty()) GTEST_SKIP() << engine_->Skipped();
    store_ = engine_->Open();
  }
  std::vector<std::string> Keys(const std::string& prefix) {
    std::vector<std::string> keys;
    std::string from;
    do {
      const auto page = store_->List(prefix, from);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const ObjectInfo& object : page->objects) keys.push_back(object.key);
      from = page->next;
    } while (!from.empty());
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  std::string All(const std::string& key) {
    return store_->Read(key, {.size = Objects::kReadBytesMax}).value_or("(error)");
  }
  StatusCode PutCode(const std::string& key, std::string_view bytes) {
    return store_->Put(key, bytes).code();
  }

  std::unique_ptr<ObjectEngine> engine_;
  std::unique_ptr<Objects> store_;
};

INSTANTIATE_TEST_SUITE_P(
    Engines, ObjectsContract,
    ::testing::Values(
        ObjectEngineKind{"Files", [] { return std::make_unique<FilesEngine>(); }},
        ObjectEngineKind{"SeaweedFs", [] { return std::make_unique<S3Engine>(SeaweedFs(), true); }},
        ObjectEngineKind{"Rclone", [] { return std::make_unique<S3Engine>(Rclone(), false); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(ObjectsContract, WhatIsPutIsReadWholeAndInRanges) {
  ASSERT_EQ(PutCode("logs/a-1/x.b_c", "0123456789"), StatusCode::kOk);
  ASSERT_EQ(PutCode("empty", ""), StatusCode::kOk);
  EXPECT_EQ(*store_->Read("logs/a-1/x.b_c", {.offset = 0, .size = 100}), "0123456789");
  EXPECT_EQ(*store_->Read("logs/a-1/x.b_c", {.offset = 3, .size = 4}), "3456");
  EXPECT_EQ(*store_->Read("logs/a-1/x.b_c", {.offset = 8, .size = 100}), "89");
  EXPECT_EQ(*store_->Read("logs/a-1/x.b_c", {.offset = 10, .size = 1}), "");
  EXPECT_EQ(*store_->Read("logs/a-1/x.b_c", {.offset = 11, .size = 1}), "");
  EXPECT_EQ(*store_->Read("empty", {.offset = 0, .size = 1}), "");
  EXPECT_EQ(store_->Head("empty")->size, 0u);
  const auto info = store_->Head("logs/a-1/x.b_c");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->size, 10u);
  EXPECT_GT(info->modified_ms, 1'600'000'000'000);
}

TEST_P(ObjectsContract, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(store_->Head("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Read("none/x", {.size = 1}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Parts({.key = "none", .id = std::string(32, 'a')}).status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(Keys("").empty());
}

TEST_P(ObjectsContract, ARangeOfAFileIsPut) {
  const TempDir dir;
  ASSERT_TRUE(common::WriteFileAtomically(dir.path() + "/f",
                                          std::string(100, 'a') + std::string(3 << 20, 'b'))
                  .ok());
  const auto file = common::OpenRegular(dir.path() + "/f", O_RDONLY);
  ASSERT_TRUE(
      store_->Put("k", common::FileRange{.fd = file->get(), .offset = 90, .size = 2 << 20}).ok());
  EXPECT_EQ(All("k"), std::string(10, 'a') + std::string((2 << 20) - 10, 'b'));
  EXPECT_EQ(store_->Put("short", common::FileRange{.fd = file->get(), .offset = 0, .size = 4 << 20})
                .code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(store_->Head("short").status().code(), StatusCode::kNotFound);
}

TEST_P(ObjectsContract, AUsedKeyIsRefusedWhereTheStoreCanTell) {
  ASSERT_EQ(PutCode("k", "first"), StatusCode::kOk);
  EXPECT_EQ(PutCode("k", "second"),
            engine_->RefusesUsedKeys() ? StatusCode::kAlreadyExists : StatusCode::kOk);
  EXPECT_EQ(All("k"), engine_->RefusesUsedKeys() ? "first" : "second");
}

TEST_P(ObjectsContract, ListsByPrefix) {
  for (const char* key : {"b", "a/c", "a-b", "a/b/d", "ab", "a.x"})
    ASSERT_EQ(PutCode(key, "1"), StatusCode::kOk);
  EXPECT_EQ(Keys(""), (std::vector<std::string>{"a-b", "a.x", "a/b/d", "a/c", "ab", "b"}));
  EXPECT_EQ(Keys("a/"), (std::vector<std::string>{"a/b/d", "a/c"}));
  EXPECT_EQ(Keys("a"), (std::vector<std::string>{"a-b", "a.x", "a/b/d", "a/c", "ab"}));
  EXPECT_EQ(Keys("a/b"), (std::vector<std::string>{"a/b/d"}));
  EXPECT_TRUE(Keys("c").empty());
}

TEST_P(ObjectsContract, DeletesManyAndWhatIsNotThere) {
  for (const char* key : {"a/b", "a/c", "d"}) ASSERT_EQ(PutCode(key, "1"), StatusCode::kOk);
  const absl::Status deleted = store_->Delete({"a/b", "d", "never"});
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_EQ(Keys(""), (std::vector<std::string>{"a/c"}));
  EXPECT_TRUE(store_->Delete({"a/c", "a/b"}).ok());
  EXPECT_TRUE(store_->Delete({}).ok());
  EXPECT_TRUE(Keys("").empty());
}

TEST_P(ObjectsContract, PartsInAnyOrderBecomeAnObjectAlsoAtAnotherCoordinator) {
  const std::string one(Objects::kPartBytesMin, '1');
  const std::string two(Objects::kPartBytesMin + 5, '2');
  const auto upload = store_->BeginUpload("ckpt/step-1");
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_TRUE(store_->Parts(*upload)->empty());
  ASSERT_TRUE(store_->PutPart(*upload, 3, std::string_view("end")).ok());
  ASSERT_TRUE(store_->PutPart(*upload, 2, std::string_view(one)).ok());
  ASSERT_TRUE(store_->PutPart(*upload, 2, std::string_view(two)).ok());
  const auto first = store_->PutPart(*upload, 1, std::string_view(one));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(store_->Head("ckpt/step-1").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Keys("").empty());

  const std::unique_ptr<Objects> other = engine_->Open();
  const auto parts = other->Parts(*upload);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ((*parts)[1].size, two.size());
  EXPECT_EQ((*parts)[0].tag, first->tag);
  const absl::Status completed = other->Complete(*upload, *parts);
  ASSERT_TRUE(completed.ok()) << completed;
  EXPECT_EQ(All("ckpt/step-1"), one + two + "end");
  EXPECT_TRUE(store_->Complete(*upload, *parts).ok()) << "again, as an answer may be lost";
  EXPECT_EQ(Keys(""), (std::vector<std::string>{"ckpt/step-1"}));
  EXPECT_TRUE(store_->OpenUploads("")->uploads.empty());
}

TEST_P(ObjectsContract, AnUploadThatIsNotWholeIsNotCompleted) {
  const auto upload = store_->BeginUpload("k");
  ASSERT_TRUE(upload.ok()) << upload.status();
  const auto part = store_->PutPart(*upload, 1, std::string_view("x"));
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(store_->Complete(*upload, {}).code(), StatusCode::kInvalidArgument);
  ObjectPart other = *part;
  other.tag = "\"00000000000000000000000000000000\"";
  EXPECT_FALSE(store_->Complete(*upload, {other}).ok());
  EXPECT_EQ(store_->Head("k").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(store_->PutPart(*upload, 0, std::string_view("x")).ok());
  EXPECT_FALSE(store_->PutPart(*upload, Objects::kPartsMax + 1, std::string_view("x")).ok());
}

TEST_P(ObjectsContract, UploadsThatAreNotCompletedAreListedAndAborted) {
  const auto upload = store_->BeginUpload("a/b");
  const auto kept = store_->BeginUpload("a/c");
  ASSERT_TRUE(upload.ok() && kept.ok()) << upload.status() << kept.status();
  ASSERT_TRUE(store_->PutPart(*upload, 1, std::string_view("x")).ok());
  auto open = store_->OpenUploads("");
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_EQ(open->uploads.size(), 2u);
  EXPECT_GT(open->uploads[0].begun_ms, 1'600'000'000'000);
  const auto is_first = [&](const Objects::OpenUpload& each) {
    return each.upload.id == upload->id && each.upload.key == "a/b";
  };
  EXPECT_EQ(std::count_if(open->uploads.begin(), open->uploads.end(), is_first), 1);
  EXPECT_TRUE(store_->Abort(*upload).ok());
  EXPECT_TRUE(store_->Abort(*upload).ok());
  EXPECT_EQ(store_->Parts(*upload).status().code(), StatusCode::kNotFound);
  open = store_->OpenUploads("");
  ASSERT_EQ(open->uploads.size(), 1u);
  EXPECT_EQ(open->uploads[0].upload.key, "a/c");
  EXPECT_TRUE(store_->Abort(*kept).ok());
}

TEST_P(ObjectsContract, PresignedUrlsNeedNoCredentials) {
  const auto upload = store_->BeginUpload("k");
  ASSERT_TRUE(upload.ok()) << upload.status();
  const auto part = store_->PresignPart(*upload, 1, 9, seconds(60));
  if (!engine_->HasPresignedUrls()) {
    EXPECT_EQ(part.status().code(), StatusCode::kUnimplemented);
    EXPECT_EQ(store_->PresignGet("k", seconds(60)).status().code(), StatusCode::kUnimplemented);
    return;
  }
  const auto transfers = *common::Transfers::Open("");
  const auto longer = transfers->Run(
      {.method = "PUT", .url = part->url, .body = std::string_view("more than it is for")});
  EXPECT_EQ(longer->status, 403) << longer->body;
  const auto put =
      transfers->Run({.method = "PUT", .url = part->url, .body = std::string_view("presigned")});
  ASSERT_TRUE(put.ok()) << put.status();
  ASSERT_EQ(put->status, 200) << put->body;
  const auto parts = store_->Parts(*upload);
  ASSERT_TRUE(parts.ok() && parts->size() == 1) << parts.status();
  EXPECT_EQ((*parts)[0].tag, put->Header("etag"));
  ASSERT_TRUE(store_->Complete(*upload, *parts).ok());
  const auto get = store_->PresignGet("k", seconds(60));
  EXPECT_EQ(transfers->Run({.url = get->url})->body, "presigned");
  EXPECT_EQ(transfers->Run({.url = get->url, .headers = {{"Range", "bytes=3-5"}}})->body, "sig");
  EXPECT_GE(transfers->Run({.url = std::string(common::WithoutQuery(get->url))})->status, 400);
  std::string changed = get->url;
  changed.back() = changed.back() == '0' ? '1' : '0';
  EXPECT_EQ(transfers->Run({.url = changed})->status, 403);
  const int64_t now_ms = common::SystemClock().Read().wall_ms;
  EXPECT_LE(store_->PresignGet("k", seconds(86'400))->expires_ms, now_ms + 15 * 60'000 + 1'000);
}

TEST_P(ObjectsContract, BadKeysAreRefused) {
  for (const char* key : {"", "../x", "/etc/x", "a/../../x", ".uploads/x", "a b"}) {
    EXPECT_EQ(PutCode(key, "x"), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Head(key).status().code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Delete({key}).code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->BeginUpload(key).status().code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Abort({.key = key, .id = "../../x"}).code(), StatusCode::kInvalidArgument)
        << key;
  }
  EXPECT_EQ(store_->List("../", "").status().code(), StatusCode::kInvalidArgument);
}

TEST_P(ObjectsContract, ManyThreadsUseItAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 5; ++k) {
        const std::string key = StrCat("t/", i, "/", k);
        const std::string bytes(1000 * (i + 1) + k, static_cast<char>('a' + k));
        EXPECT_EQ(PutCode(key, bytes), StatusCode::kOk);
        EXPECT_EQ(All(key), bytes);
        if (k % 2 == 1) {
          EXPECT_TRUE(store_->Delete({key}).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Keys("t/").size(), 18u);
}

TEST_P(ObjectsContract, TheSinkEndsAFetch) {
  ASSERT_EQ(PutCode("k", std::string(1 << 20, 'x')), StatusCode::kOk);
  const absl::Status ended = store_->Fetch("k", {.size = 1 << 20}, [](std::string_view) {
    return absl::UnavailableError("the reader left");
  });
  EXPECT_EQ(ended.message(), "the reader left");
}

}  // namespace
}  // namespace muster::coordinator
