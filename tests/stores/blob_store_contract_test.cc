// What workers may rely on, whichever engine keeps the checkpoint files: whole, right, durable.
#include <string>
#include <thread>
#include <vector>

#include "common/sha256.h"
#include "tests/stores/engines.h"

namespace muster::coordinator {
namespace {

using BlobStoreContract = StoreContract;
INSTANTIATE_TEST_SUITE_P(Engines, BlobStoreContract, testing::ValuesIn(EngineKinds()), NameOfKind);

TEST_P(BlobStoreContract, AnUploadGoesOnWhereItBroke) {
  const auto store = engine().OpenBlobStore();
  const std::string bytes = "the bytes of a checkpoint";
  const std::string hash = common::Sha256Hex(bytes);
  ASSERT_FALSE(store->Begin(hash, bytes.size())->have);
  ASSERT_TRUE(store->Write(hash, bytes.size(), 0, bytes.substr(0, 10)).ok());
  EXPECT_FALSE(*store->Finish(hash, bytes.size()));
  EXPECT_EQ(store->Begin(hash, bytes.size())->offset, 10u);
  EXPECT_EQ(store->Write(hash, bytes.size(), 15, bytes.substr(15)).code(),
            absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(store->Write(hash, bytes.size(), 10, bytes.substr(10)).ok());
  EXPECT_TRUE(*store->Finish(hash, bytes.size()));
  EXPECT_TRUE(store->Begin(hash, bytes.size())->have);
  EXPECT_EQ(*store->Read(hash, 4, 5), "bytes");
  EXPECT_TRUE(store->Verify(hash).ok());
}

TEST_P(BlobStoreContract, EqualFilesOfTwoJobsMayArriveAtOnce) {
  const auto store = engine().OpenBlobStore();
  for (int round = 0; round < 50; ++round) {
    const std::string bytes = "the configuration of run " + std::to_string(round);
    const std::string hash = common::Sha256Hex(bytes);
    std::vector<std::thread> uploads;
    for (int i = 0; i < 4; ++i) {
      uploads.emplace_back([&] {
        EXPECT_TRUE(store->Write(hash, bytes.size(), 0, bytes).ok());
        const auto finished = store->Finish(hash, bytes.size());
        EXPECT_TRUE(finished.ok() && *finished) << finished.status();
      });
    }
    for (std::thread& upload : uploads) upload.join();
  }
}

TEST_P(BlobStoreContract, SizesAndOffsetsThatCannotBeAreRefused) {
  const auto store = engine().OpenBlobStore();
  const std::string hash = common::Sha256Hex("x");
  const uint64_t huge = uint64_t{1} << 63;
  EXPECT_EQ(store->Begin(hash, huge).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Write(hash, huge, 0, "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Write(hash, 1, UINT64_MAX, "x").code(), absl::StatusCode::kOutOfRange);
}

TEST_P(BlobStoreContract, BytesThatDoNotMatchTheirHashNeverAppear) {
  const auto store = engine().OpenBlobStore();
  const std::string hash = common::Sha256Hex("expected");
  ASSERT_TRUE(store->Write(hash, 8, 0, "received").ok());
  EXPECT_EQ(store->Finish(hash, 8).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(store->Begin(hash, 8)->have);
  EXPECT_EQ(store->Begin(hash, 8)->offset, 0u);
  EXPECT_FALSE(store->Begin("../../etc/passwd", 8).ok());
}

TEST_P(BlobStoreContract, AnUploadAndABlobOutliveAReopening) {
  const std::string hash = common::Sha256Hex("good bytes");
  ASSERT_TRUE(engine().OpenBlobStore()->Write(hash, 10, 0, "good").ok());
  auto store = engine().OpenBlobStore();
  EXPECT_EQ(store->Received(hash), 4u);
  EXPECT_EQ(store->Read(hash, 0, 10).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store->Write(hash, 10, 4, " bytes").ok());
  ASSERT_TRUE(*store->Finish(hash, 10));
  store = engine().OpenBlobStore();
  EXPECT_EQ(*store->Size(hash), 10u);
  EXPECT_EQ(*store->Read(hash, 8, 100), "es") << "shorter only at the end";
  EXPECT_EQ(*store->Read(hash, 10, 100), "");
}

TEST_P(BlobStoreContract, APromisedBlobIsKeptAndAnotherGoes) {
  const std::string hash = common::Sha256Hex("x");
  auto store = engine().OpenBlobStore();
  ASSERT_TRUE(store->Write(hash, 1, 0, "x").ok());
  ASSERT_TRUE(*store->Finish(hash, 1));
  EXPECT_FALSE(store->RemoveUnlessPromised(hash));
  store = engine().OpenBlobStore();
  EXPECT_TRUE(store->RemoveUnlessPromised(hash));
  EXPECT_EQ(store->Verify(hash).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(store->Begin(hash, 1)->have);
}

TEST_P(BlobStoreContract, OwnersUploadTheSameBytesWithoutKnowingOfEachOther) {
  const auto store = engine().OpenBlobStore();
  const std::string bytes = "the code of a job";
  const std::string hash = common::Sha256Hex(bytes);
  const auto open = [&](const std::string& owner, uint64_t offset) {
    return store->OpenUpload(
        {.owner = owner, .sha256 = hash, .size = bytes.size(), .offset = offset});
  };
  auto first = *open("vision", 0);
  ASSERT_TRUE(*first->CatchUp());
  ASSERT_TRUE(first->Append(bytes.substr(0, 8)).ok());
  ASSERT_EQ(store->Partials("vision").size(), 1u);
  EXPECT_EQ(store->Partials("vision").front().bytes, 8u);
  EXPECT_EQ(store->Partials("vision").front().sha256, hash);
  EXPECT_TRUE(store->Partials("visio").empty());
  EXPECT_TRUE(store->Partials("speech").empty());
  EXPECT_EQ(store->Begin(hash, bytes.size())->offset, 0u) << "nor does a worker's upload";
  EXPECT_EQ(open("speech", 8).status().code(), absl::StatusCode::kOutOfRange);
  auto second = *open("speech", 0);
  ASSERT_TRUE(*second->CatchUp() && second->Append(bytes).ok());
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_TRUE(store->Verify(hash).ok());
  EXPECT_EQ(store->Partials("vision").front().bytes, 8u) << "its own upload goes on";
  ASSERT_TRUE(first->Append(bytes.substr(8)).ok());
  ASSERT_TRUE(first->Commit().ok()) << "over the one that is there";
  EXPECT_TRUE(store->Verify(hash).ok());
  EXPECT_TRUE(store->Partials("vision").empty());
  EXPECT_FALSE(store->RemoveUnlessPromised(hash)) << "it is about to be referred to";
}

TEST_P(BlobStoreContract, AnOwnersUploadGoesOnAndIsHashedFromItsBeginning) {
  auto store = engine().OpenBlobStore();
  const std::string bytes(3'000'000, 'x');
  BlobStore::OpenedUpload upload{
      .owner = "vision", .sha256 = common::Sha256Hex(bytes), .size = bytes.size()};
  ASSERT_TRUE((*store->OpenUpload(upload))->Append(bytes.substr(0, 2'500'000)).ok());
  store = engine().OpenBlobStore();
  upload.offset = 2'000'000;  // less than arrived
  auto again = *store->OpenUpload(upload);
  while (!*again->CatchUp()) {
  }
  EXPECT_EQ(again->Append(bytes.substr(2'000'000) + "y").code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(again->Append(bytes.substr(2'000'000, 999'999)).ok());
  EXPECT_EQ(again->Commit().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(again->Append("x").ok());
  EXPECT_TRUE(again->Commit().ok());
  EXPECT_TRUE(store->Verify(upload.sha256).ok());
}

TEST_P(BlobStoreContract, OtherBytesOfAnOwnerAreThrownAway) {
  const auto store = engine().OpenBlobStore();
  const BlobStore::OpenedUpload upload{
      .owner = "vision", .sha256 = common::Sha256Hex("expected"), .size = 8};
  auto opened = *store->OpenUpload(upload);
  ASSERT_TRUE(*opened->CatchUp() && opened->Append("received").ok());
  EXPECT_EQ(opened->Commit().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(store->Partials("vision").empty());
  EXPECT_EQ(store->Size(upload.sha256).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE((*store->OpenUpload(upload))->Append("rece").ok());
  store->RemovePartial("vision", upload.sha256);
  EXPECT_TRUE(store->Partials("vision").empty());
  EXPECT_FALSE(store->OpenUpload({.owner = "../x", .sha256 = upload.sha256, .size = 8}).ok());
  EXPECT_FALSE(store->OpenUpload({.owner = "vision", .sha256 = "../x", .size = 8}).ok());
}

}  // namespace
}  // namespace muster::coordinator
