// Files that go from a worker to a real object store: both ends, without the calls between them.
#include "coordinator/store_parts/direct_uploads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/periodic/object_garbage.h"
#include "coordinator/s3/objects.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/object_names.h"
#include "coordinator/store_parts/blobs.h"
#include "coordinator/store_parts/object_blobs.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/fault_proxy.h"
#include "tests/stores/object_servers.h"
#include "tests/support/scripted_server.h"
#include "worker/links/object_link.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using testing::Fault;

constexpr int64_t kHourMs = 3'600'000;
constexpr uint64_t kSize = (20 << 20) + 77;  // three parts
const std::string kSender = "+7.1+0123456789abcdef";

class LivedByHand final : public common::Clock {
 public:
  common::Now Read() const override { return now; }
  common::Now now;
};

v1::DirectUpload AsAsked(const DirectUploads::Place& place) {
  v1::DirectUpload asked;
  asked.set_part_bytes(place.part_bytes);
  asked.set_more(place.is_more);
  for (const DirectUploads::Part& part : place.parts) {
    v1::DirectUpload::Part& added = *asked.add_parts();
    added.set_number(static_cast<uint32_t>(part.number));
    added.set_url(part.url);
  }
  return asked;
}

class DirectUploadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SeaweedFs().skipped.empty()) GTEST_SKIP() << SeaweedFs().skipped;
    proxy_ = std::make_unique<testing::FaultProxy>(SeaweedFs().port);
    static std::atomic<int> number = 0;
    objects_ = *s3::S3Objects::Open(OptionsOf(proxy_->port(), StrCat("direct-", ++number)));
    ASSERT_TRUE(OpenSqliteJournal(paths_).ok());
    clock_.now.lived_ms = 100 * kHourMs;
    names_ = *SqliteObjectNames::Open(paths_, std::make_shared<WriteTurns>(), clock_);
    blobs_ = std::make_shared<ObjectBlobs>(*objects_, *names_, "blobs/", nullptr, clock_);
    uploads_ = std::make_unique<DirectUploads>(*objects_, *names_, "blobs/");
  }

  // A file of which no two parts are equal.
  worker::Blob Write(const std::string& name, uint64_t size = kSize) {
    std::string bytes(size, ' ');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 >> i % 13);
    bytes.replace(0, name.size(), name);
    std::ofstream(dir_.path() + "/" + name, std::ios::binary) << bytes;
    file_ = common::UniqueFd(open((dir_.path() + "/" + name).c_str(), O_RDWR));
    return {.sha256 = common::Sha256Hex(bytes), .size = size};
  }
  absl::StatusOr<std::optional<DirectUploads::Place>> Ask(const worker::Blob& blob,
                                                          bool is_sent = false,
                                                          const std::string& sender = kSender) {
    const uint64_t job = std::stoull(sender.substr(1));
    return uploads_->Find({.sender = sender, .job = job, .sha256 = blob.sha256, .size = blob.size},
                          is_sent);
  }
  // As BlobLink::Upload does.
  bool Send(const worker::Blob& blob, const std::string& sender = kSender) {
    worker::ObjectUpload upload(link_, file_.get(), blob);
    for (int i = 0; i < 20 && upload.IsPossible(); ++i) {
      const auto place = Ask(blob, upload.IsSent(), sender);
      if (!place.ok()) continue;
      if (!place->has_value()) return false;
      if ((*place)->is_whole) return true;
      last_ = upload.Send(AsAsked(**place), [] {});
      if (absl::IsDataLoss(last_)) return false;
    }
    return false;
  }
  // NOT_FOUND and the like if the blob is not what the file is.
  absl::Status Fetch(const worker::Blob& blob, uint64_t job = 7) {
    const auto url = uploads_->UrlOf(job, blob.sha256);
    if (!url.ok()) return url.status();
    const common::UniqueFd target(
        open((dir_.path() + "/fetched").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
    uint64_t done = 0;
    return worker::FetchObjectFile(
        link_, url->url, blob, target.get(), &done, [] { return false; }, [](uint64_t) {});
  }
  size_t CountObjects() { return objects_->List("blobs/", "")->objects.size(); }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
  LivedByHand clock_;
  std::unique_ptr<testing::FaultProxy> proxy_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<ObjectNames> names_;
  std::shared_ptr<ObjectBlobs> blobs_;
  std::unique_ptr<DirectUploads> uploads_;
  worker::ObjectLink link_;
  common::UniqueFd file_;
  absl::Status last_;
};

TEST_F(DirectUploadsTest, AFileGoesToTheStoreAndBack) {
  const worker::Blob blob = Write("weights");
  const auto place = Ask(blob);
  ASSERT_TRUE(place.ok() && place->has_value()) << place.status();
  EXPECT_EQ((*place)->parts.size(), 3u);
  ASSERT_TRUE(Send(blob)) << last_;
  EXPECT_EQ(*blobs_->SizeFor(7, blob.sha256), blob.size);
  EXPECT_EQ(*blobs_->ReadFor(7, blob.sha256, 0, 7), "weights");
  const absl::Status fetched = Fetch(blob);
  EXPECT_TRUE(fetched.ok()) << fetched;
  EXPECT_TRUE((*Ask(blob))->is_whole) << "asked again";
  EXPECT_EQ(CountObjects(), 1u);
  EXPECT_TRUE(objects_->OpenUploads("")->uploads.empty());
}

// Only the sender's word says that these are the bytes.
TEST_F(DirectUploadsTest, WhatOneJobHasSentIsThereForNoOther) {
  const worker::Blob blob = Write("weights");
  ASSERT_TRUE(Send(blob));
  EXPECT_TRUE(*blobs_->IsSentBy(7, blob.sha256));
  EXPECT_FALSE(*blobs_->IsSentBy(8, blob.sha256));
  EXPECT_TRUE(absl::IsNotFound(blobs_->Size(blob.sha256).status())) << "for code, for instance";
  EXPECT_TRUE(absl::IsNotFound(blobs_->SizeFor(8, blob.sha256).status()));
  EXPECT_TRUE(absl::IsNotFound(blobs_->ReadFor(8, blob.sha256, 0, 9).status()));
  EXPECT_TRUE(absl::IsNotFound(Fetch(blob, 8)));
  EXPECT_TRUE((*Ask(blob, true, "+7.2+anothernode"))->is_whole) << "a later attempt of the job";

  const auto all = *Blobs::Open(blobs_, paths_);
  EXPECT_TRUE(*KeepProven(*all, kSender, 7, blob.sha256, blob.size)) << "it shows nothing else";
  EXPECT_TRUE(*KeepProven(*all, "", 7, blob.sha256, blob.size));
  EXPECT_FALSE(*KeepProven(*all, kSender, 7, blob.sha256, blob.size + 1));
  EXPECT_FALSE(*KeepProven(*all, "+8.1+node", 8, blob.sha256, blob.size));
  EXPECT_FALSE(*KeepProven(*all, "", 8, blob.sha256, blob.size));

  ASSERT_TRUE(Send(blob, "+8.1+node")) << "equal files of two jobs";
  EXPECT_TRUE(Fetch(blob, 8).ok());
  EXPECT_EQ(CountObjects(), 2u);
  ASSERT_TRUE(blobs_->ForgetJob(8).ok());
  EXPECT_TRUE(absl::IsNotFound(Fetch(blob, 8)));
  EXPECT_TRUE(Fetch(blob, 7).ok());
  EXPECT_TRUE(blobs_->Delete(blob.sha256)) << "nothing refers to it";
  EXPECT_TRUE(absl::IsNotFound(Fetch(blob, 7)));
}

// A worker names another tenant's hash and sends other bytes, before or after the real ones are there.
TEST_F(DirectUploadsTest, AForgedHashNeitherHarmsNorOpensWhatOthersHave) {
  const worker::Blob blob = Write("weights");
  const auto forge = [&](uint64_t job, const std::string& sender) {
    const DirectUploads::File claimed{
        .sender = sender, .job = job, .sha256 = blob.sha256, .size = 8 << 20};
    ASSERT_TRUE(uploads_->Find(claimed, false)->has_value());
    const SentUpload begun = **names_->FindUpload(sender, blob.sha256);
    const std::string bytes(8 << 20, 'f');
    ASSERT_TRUE(objects_->PutPart({begun.key, begun.id}, 1, std::string_view(bytes)).ok());
    ASSERT_TRUE((*uploads_->Find(claimed, true))->is_whole);
  };
  forge(8, "+8.1+node");
  std::filesystem::copy(dir_.path() + "/weights", dir_.path() + "/hashed");
  ASSERT_TRUE(blobs_->Put(dir_.path() + "/hashed", blob.sha256).ok());
  forge(9, "+9.1+node");
  for (const uint64_t job : {0, 7, 10}) {
    EXPECT_EQ(*blobs_->SizeFor(job, blob.sha256), blob.size) << job;
    EXPECT_EQ(*blobs_->ReadFor(job, blob.sha256, 0, 7), "weights") << job;
    EXPECT_TRUE(Fetch(blob, job).ok()) << job;
  }
  for (const uint64_t job : {8, 9}) {
    EXPECT_EQ(*blobs_->ReadFor(job, blob.sha256, 0, 7), "fffffff") << job;
    EXPECT_FALSE(Fetch(blob, job).ok()) << job;
  }
}

TEST_F(DirectUploadsTest, OfTwoNodesOfAJobTheFirstHasTheName) {
  const worker::Blob blob = Write("weights");
  worker::ObjectUpload upload(link_, file_.get(), blob);
  ASSERT_TRUE(upload.Send(AsAsked(**Ask(blob)), [] {}).ok());
  ASSERT_TRUE(Send(blob, "+7.1+anothernode"));
  EXPECT_TRUE((*Ask(blob, true))->is_whole);
  clock_.now.lived_ms += 25 * kHourMs;
  ObjectGarbage garbage(*objects_, *names_, "blobs/");
  ASSERT_TRUE(garbage.Collect(clock_.now.lived_ms).ok());
  clock_.now.lived_ms += 25 * kHourMs;
  ASSERT_TRUE(garbage.Collect(clock_.now.lived_ms).ok());
  EXPECT_EQ(CountObjects(), 1u);
  EXPECT_TRUE(objects_->OpenUploads("")->uploads.empty());
  EXPECT_TRUE(Fetch(blob).ok());
}

TEST_F(DirectUploadsTest, AnotherCoordinatorGoesOnWithIt) {
  const worker::Blob blob = Write("weights");
  v1::DirectUpload first = AsAsked(**Ask(blob));
  first.mutable_parts()->DeleteSubrange(1, 2);
  worker::ObjectUpload upload(link_, file_.get(), blob);
  ASSERT_TRUE(upload.Send(first, [] {}).ok());
  uploads_ = std::make_unique<DirectUploads>(*objects_, *names_, "blobs/");
  const auto place = Ask(blob);
  ASSERT_EQ((*place)->parts.size(), 2u);
  EXPECT_EQ((*place)->parts[0].number, 2);
  ASSERT_TRUE(Send(blob)) << last_;
  EXPECT_TRUE(Fetch(blob).ok());
}

// As when the coordinator was killed in between.
TEST_F(DirectUploadsTest, ACompletedUploadIsNamedLater) {
  const worker::Blob blob = Write("weights");
  worker::ObjectUpload upload(link_, file_.get(), blob);
  ASSERT_TRUE(upload.Send(AsAsked(**Ask(blob)), [] {}).ok());
  const SentUpload begun = **names_->FindUpload(kSender, blob.sha256);
  const coordinator::ObjectUpload at_store{.key = begun.key, .id = begun.id};
  ASSERT_TRUE(objects_->Complete(at_store, *objects_->Parts(at_store)).ok());
  EXPECT_TRUE((*Ask(blob, true))->is_whole);
  EXPECT_EQ((*names_->FindSent(7, blob.sha256))->key, begun.key);
  EXPECT_TRUE(Fetch(blob).ok());
}

TEST_F(DirectUploadsTest, AStaleOneIsAbortedAndBeginsAnew) {
  const worker::Blob blob = Write("weights");
  ASSERT_TRUE(Ask(blob)->has_value());
  const SentUpload begun = **names_->FindUpload(kSender, blob.sha256);
  ASSERT_TRUE(objects_->Abort({.key = begun.key, .id = begun.id}).ok());
  EXPECT_TRUE(absl::IsAborted(Ask(blob).status()));
  ASSERT_TRUE(Send(blob)) << last_;
  EXPECT_NE((*names_->FindSent(7, blob.sha256))->key, begun.key);
}

// It may be deleted at any time from then on, so nothing may refer to it.
TEST_F(DirectUploadsTest, WhatIsGivenUpIsNeverNamed) {
  const worker::Blob blob = Write("weights");
  ASSERT_TRUE(Ask(blob)->has_value());
  const SentUpload begun = **names_->FindUpload(kSender, blob.sha256);
  ASSERT_TRUE(names_->DropUploadsBefore(clock_.now.lived_ms + 1).ok());
  EXPECT_FALSE(*names_->NameUpload(kSender, 7, blob.sha256, begun));
  EXPECT_FALSE(names_->FindSent(7, blob.sha256)->has_value());
  EXPECT_EQ(*names_->DoomedBefore(INT64_MAX, 9), std::vector<std::string>{begun.key});
}

TEST_F(DirectUploadsTest, PartsOfAnotherSizeAreSentAgain) {
  const worker::Blob blob = Write("weights");
  ASSERT_TRUE(Ask(blob)->has_value());
  const SentUpload begun = **names_->FindUpload(kSender, blob.sha256);
  ASSERT_TRUE(objects_->PutPart({begun.key, begun.id}, 1, std::string_view("short")).ok());
  ASSERT_TRUE(objects_->PutPart({begun.key, begun.id}, 9, std::string_view("beyond")).ok());
  EXPECT_EQ((*Ask(blob, true))->parts.size(), 3u);
  ASSERT_TRUE(Send(blob)) << last_;
  EXPECT_TRUE(Fetch(blob).ok());
}

TEST_F(DirectUploadsTest, AFileThatChangesIsNotNamed) {
  const worker::Blob blob = Write("weights");
  ASSERT_EQ(pwrite(file_.get(), "x", 1, 12'345'678), 1);
  EXPECT_FALSE(Send(blob));
  EXPECT_TRUE(absl::IsDataLoss(last_)) << last_;
  EXPECT_FALSE(names_->FindSent(7, blob.sha256)->has_value());
  ASSERT_EQ(ftruncate(file_.get(), 1'000), 0);
  EXPECT_FALSE(Send(blob));
  EXPECT_TRUE(absl::IsDataLoss(last_)) << last_;
}

TEST_F(DirectUploadsTest, FaultsOnTheWayArePassedOver) {
  const worker::Blob blob = Write("weights");
  const auto answers = [](const std::string& status) {
    return Fault{.answer = testing::HttpAnswer(status, "<Error/>")};
  };
  auto place = Ask(blob);
  worker::ObjectUpload upload(link_, file_.get(), blob);
  proxy_->Plan({answers("503 Slow Down"),
                answers("500 Internal Server Error"),
                {.request_bytes = 2'000'000},
                {.with_head = false}});
  absl::Status sent = upload.Send(AsAsked(**place), [] {});
  EXPECT_EQ(proxy_->Left(), 0u);
  // A URL that has expired: the coordinator is asked for another one.
  proxy_->Plan({answers("403 Forbidden"), answers("403 Forbidden"), answers("403 Forbidden"),
                answers("403 Forbidden")});
  sent = upload.Send(AsAsked(**place), [] {});
  EXPECT_TRUE(absl::IsUnavailable(sent)) << sent;
  EXPECT_EQ(sent.message().find("Signature"), std::string_view::npos) << sent;
  proxy_->Plan({});
  ASSERT_TRUE(Send(blob)) << last_;
  proxy_->Plan({{.body_bytes = 1'000'000},
                {.body_bytes = 10, .then = Fault::Then::kReset},
                answers("500 Internal Server Error")});
  const absl::Status fetched = Fetch(blob);
  EXPECT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(proxy_->Left(), 0u);
}

// Then the file goes through the coordinator, and so do the next ones for a while.
TEST_F(DirectUploadsTest, AStoreThatTheNodeDoesNotReachIsGivenUp) {
  const worker::Blob blob = Write("weights");
  v1::DirectUpload asked = AsAsked(**Ask(blob));
  for (v1::DirectUpload::Part& part : *asked.mutable_parts())
    part.set_url("http://127.0.0.1:1/closed?X-Amz-Signature=secret");
  worker::ObjectUpload upload(link_, file_.get(), blob);
  int rounds = 0;
  for (; upload.IsPossible() && rounds < 20; ++rounds)
    EXPECT_TRUE(absl::IsUnavailable(upload.Send(asked, [] {})));
  EXPECT_LT(rounds, 10);
  EXPECT_FALSE(link_.IsUsable());
}

TEST_F(DirectUploadsTest, PartsThatTheFileDoesNotHaveAreRefused) {
  const worker::Blob blob = Write("weights");
  worker::ObjectUpload upload(link_, file_.get(), blob);
  for (const std::vector<uint32_t>& numbers :
       std::vector<std::vector<uint32_t>>{{0}, {4}, {2, 2}, {3, 1}, {4'000'000'000}}) {
    v1::DirectUpload asked;
    asked.set_part_bytes(8 << 20);
    for (const uint32_t number : numbers) {
      v1::DirectUpload::Part& part = *asked.add_parts();
      part.set_number(number);
      part.set_url("http://127.0.0.1:1/");
    }
    EXPECT_TRUE(absl::IsUnavailable(upload.Send(asked, [] {}))) << numbers[0];
  }
  v1::DirectUpload none;
  EXPECT_TRUE(absl::IsUnavailable(upload.Send(none, [] {}))) << "parts of no bytes";
}

TEST_F(DirectUploadsTest, SmallOnesAndTooManyGoThroughTheCoordinator) {
  EXPECT_FALSE(Ask(Write("small", DirectUploads::kBytesMin - 1))->has_value());
  for (size_t i = 0; i < DirectUploads::kBegunMax; ++i) {
    ASSERT_TRUE(names_
                    ->KeepUpload(kSender, common::Sha256Hex(StrCat(i)),
                                 {.key = StrCat("k", i), .id = "u", .bytes = 1})
                    .ok());
  }
  const worker::Blob blob = Write("weights");
  EXPECT_FALSE(Ask(blob)->has_value());
  EXPECT_TRUE(Ask(blob, false, "+7.2+another")->has_value());
  EXPECT_FALSE(Ask({.sha256 = "../x", .size = kSize}).ok());
}

}  // namespace
}  // namespace muster::coordinator
