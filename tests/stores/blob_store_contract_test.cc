// What workers may rely on, whichever engine keeps the checkpoint files: whole, right, durable.
#include <string>
#include <thread>
#include <vector>

#include "common/hash/sha256.h"
#include "tests/stores/engines.h"
#include "tests/stores/put_blob.h"

namespace muster::coordinator {
namespace {

using BlobStoreContract = StoreContract;
INSTANTIATE_TEST_SUITE_P(Engines, BlobStoreContract, testing::ValuesIn(EngineKinds()), NameOfKind);

TEST_P(BlobStoreContract, AnUploadGoesOnWhereItBroke) {
  const auto store = engine().OpenBlobs();
  const std::string bytes = "the bytes of a checkpoint";
  const std::string hash = common::Sha256Hex(bytes);
  Blobs::OpenedUpload upload{.owner = "a", .sha256 = hash, .size = bytes.size()};
  ASSERT_FALSE(*store->Keep(hash, bytes.size()));
  auto opened = *store->OpenUpload(upload);
  ASSERT_TRUE(opened->Append(bytes.substr(0, 10)).ok());
  EXPECT_TRUE(opened->Sync().ok());
  EXPECT_EQ(opened->Commit().code(), absl::StatusCode::kFailedPrecondition);
  opened.reset();
  EXPECT_EQ(store->Arrived("a", hash), 10u);
  upload.offset = 15;
  EXPECT_EQ(store->OpenUpload(upload).status().code(), absl::StatusCode::kOutOfRange);
  upload.offset = 10;
  opened = *store->OpenUpload(upload);
  ASSERT_TRUE(*opened->CatchUp() && opened->Append(bytes.substr(10)).ok());
  ASSERT_TRUE(opened->Commit().ok());
  EXPECT_TRUE(*store->Keep(hash, bytes.size()));
  EXPECT_FALSE(*store->Keep(hash, bytes.size() - 1));
  EXPECT_EQ(*store->Read(hash, 4, 5), "bytes");
  EXPECT_TRUE(store->Verify(hash).ok());
}

TEST_P(BlobStoreContract, EqualFilesOfTwoJobsMayArriveAtOnce) {
  const auto store = engine().OpenBlobs();
  for (int round = 0; round < 50; ++round) {
    const std::string bytes = "the configuration of run " + std::to_string(round);
    const std::string hash = common::Sha256Hex(bytes);
    std::vector<std::thread> uploads;
    for (int i = 0; i < 4; ++i) {
      uploads.emplace_back([&, i] {
        const auto upload =
            store->OpenUpload({.owner = std::to_string(i), .sha256 = hash, .size = bytes.size()});
        ASSERT_TRUE(upload.ok()) << upload.status();
        EXPECT_TRUE((*upload)->Append(bytes).ok());
        EXPECT_TRUE((*upload)->Commit().ok());
      });
    }
    for (std::thread& upload : uploads) upload.join();
    EXPECT_TRUE(store->Verify(hash).ok());
  }
}

TEST_P(BlobStoreContract, AnOwnersUploadHasOneWriterAtATime) {
  const auto store = engine().OpenBlobs();
  const std::string hash = common::Sha256Hex("good bytes");
  Blobs::OpenedUpload upload{.owner = "a", .sha256 = hash, .size = 10};
  auto first = *store->OpenUpload(upload);
  ASSERT_TRUE(first->Append("good").ok());
  EXPECT_EQ(store->OpenUpload(upload).status().code(), absl::StatusCode::kAborted);
  store->RemovePartial("a", hash);
  EXPECT_EQ(store->Arrived("a", hash), 4u) << "nor is it removed meanwhile";
  ASSERT_TRUE(first->Append(" bytes").ok());
  ASSERT_TRUE(first->Commit().ok());
  EXPECT_EQ(store->Arrived("a", hash), 0u);
  first.reset();
  EXPECT_TRUE(store->OpenUpload(upload).ok());
  EXPECT_TRUE(store->Verify(hash).ok());
}

// What another owner uploads under the same hash goes into a separate file.
TEST_P(BlobStoreContract, OtherBytesAsTheSameFileSpoilNobodysUpload) {
  const auto store = engine().OpenBlobs();
  const std::string hash = common::Sha256Hex("good bytes");
  auto good = *store->OpenUpload({.owner = "a", .sha256 = hash, .size = 10});
  auto evil = *store->OpenUpload({.owner = "b", .sha256 = hash, .size = 10});
  ASSERT_TRUE(good->Append("good").ok());
  ASSERT_TRUE(evil->Append("evil").ok());
  ASSERT_TRUE(good->Append(" bytes").ok());
  ASSERT_TRUE(good->Commit().ok());
  EXPECT_TRUE(store->Verify(hash).ok());
  ASSERT_TRUE(evil->Append(" bytes").ok());
  EXPECT_EQ(evil->Commit().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(store->Verify(hash).ok());
}

TEST_P(BlobStoreContract, AnOwnerLosesTheOldestOfTooManyUnfinishedUploads) {
  const auto store = engine().OpenBlobs();
  const auto name = [](size_t i) { return common::Sha256Hex(std::to_string(i)); };
  const auto open = [&](size_t i) {
    return *store->OpenUpload({.owner = "a", .sha256 = name(i), .size = 10});
  };
  const auto kept = open(0);
  for (size_t i = 1; i <= UploadArea::kPartialsMax; ++i) ASSERT_TRUE(open(i)->Append("x").ok());
  EXPECT_EQ(store->Partials("a").size(), UploadArea::kPartialsMax + 1) << "one is being written";
  for (size_t i = 100; i < 103; ++i) ASSERT_TRUE(open(i)->Append("x").ok());
  EXPECT_LE(store->Partials("a").size(), UploadArea::kPartialsMax + 1);
  EXPECT_EQ(store->Arrived("a", name(1)), 0u);
  EXPECT_EQ(store->Arrived("a", name(102)), 1u);
  EXPECT_TRUE(kept->Append("0123456789").ok());
}

TEST_P(BlobStoreContract, SizesAndOffsetsThatCannotBeAreRefused) {
  const auto store = engine().OpenBlobs();
  const std::string hash = common::Sha256Hex("x");
  const uint64_t huge = uint64_t{1} << 63;
  const auto open = [&](uint64_t size, uint64_t offset) {
    return store->OpenUpload({.owner = "a", .sha256 = hash, .size = size, .offset = offset});
  };
  EXPECT_EQ(store->Keep(hash, huge).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(huge, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(1, UINT64_MAX).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*open(1, 0))->Append("xy").code(), absl::StatusCode::kOutOfRange);
}

TEST_P(BlobStoreContract, BytesThatDoNotMatchTheirHashNeverAppear) {
  const auto store = engine().OpenBlobs();
  const std::string hash = common::Sha256Hex("expected");
  const auto upload = *store->OpenUpload({.owner = "a", .sha256 = hash, .size = 8});
  ASSERT_TRUE(upload->Append("received").ok());
  EXPECT_EQ(upload->Commit().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(*store->Keep(hash, 8));
  EXPECT_EQ(store->Arrived("a", hash), 0u);
  EXPECT_FALSE(store->Keep("../../etc/passwd", 8).ok());
}

TEST_P(BlobStoreContract, AnUploadAndABlobOutliveAReopening) {
  const std::string hash = common::Sha256Hex("good bytes");
  Blobs::OpenedUpload upload{.owner = "a", .sha256 = hash, .size = 10};
  ASSERT_TRUE((*engine().OpenBlobs()->OpenUpload(upload))->Append("good").ok());
  auto store = engine().OpenBlobs();
  EXPECT_EQ(store->Arrived("a", hash), 4u);
  EXPECT_EQ(store->Read(hash, 0, 10).status().code(), absl::StatusCode::kNotFound);
  upload.offset = 4;
  auto again = *store->OpenUpload(upload);
  ASSERT_TRUE(*again->CatchUp() && again->Append(" bytes").ok());
  ASSERT_TRUE(again->Commit().ok());
  again.reset();
  store = engine().OpenBlobs();
  EXPECT_EQ(*store->Size(hash), 10u);
  EXPECT_EQ(*store->Read(hash, 8, 100), "es") << "shorter only at the end";
  EXPECT_EQ(*store->Read(hash, 10, 100), "");
}

TEST_P(BlobStoreContract, APromisedBlobIsKeptAndAnotherGoes) {
  auto store = engine().OpenBlobs();
  const std::string hash = *PutBlob(*store, "x");
  EXPECT_FALSE(store->RemoveUnlessPromised(hash));
  store = engine().OpenBlobs();
  EXPECT_TRUE(store->RemoveUnlessPromised(hash));
  EXPECT_EQ(store->Verify(hash).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(*store->Keep(hash, 1));
}

TEST_P(BlobStoreContract, OwnersUploadTheSameBytesWithoutKnowingOfEachOther) {
  const auto store = engine().OpenBlobs();
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
  EXPECT_EQ(store->Arrived("speech", hash), 0u);
  EXPECT_EQ(open("speech", 8).status().code(), absl::StatusCode::kOutOfRange);
  auto second = *open("speech", 0);
  ASSERT_TRUE(*second->CatchUp() && second->Append(bytes).ok());
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_TRUE(store->Verify(hash).ok());
  EXPECT_EQ(store->Partials("vision").front().bytes, 8u) << "its own upload continues";
  ASSERT_TRUE(first->Append(bytes.substr(8)).ok());
  ASSERT_TRUE(first->Commit().ok()) << "over the one that is there";
  EXPECT_TRUE(store->Verify(hash).ok());
  EXPECT_TRUE(store->Partials("vision").empty());
  EXPECT_FALSE(store->RemoveUnlessPromised(hash)) << "it is about to be referred to";
}

TEST_P(BlobStoreContract, WhatAnOwnerHasShownIsRememberedOfThatOwnerAlone) {
  auto store = engine().OpenBlobs();
  const std::string hash = *PutBlob(*store, "weights");
  EXPECT_FALSE(*store->HasProven("+7.0+any", hash)) << "that it is here proves nothing";
  ASSERT_TRUE(store->Prove("+7.0+any", hash).ok());
  ASSERT_TRUE(store->Prove("+7.0+any", hash).ok()) << "again";
  EXPECT_FALSE(*store->HasProven("+7.1+any", hash));
  EXPECT_TRUE(*KeepProven(*store, "+7.0+any", 7, hash, 7));
  EXPECT_FALSE(*KeepProven(*store, "+7.1+any", 7, hash, 7));
  EXPECT_FALSE(*KeepProven(*store, "+7.0+any", 7, hash, 6)) << "of another size";
  EXPECT_TRUE(*KeepProven(*store, "", 7, hash, 7)) << "callers are not told apart";
  EXPECT_FALSE(store->HasProven("../x", hash).ok());
  EXPECT_EQ(KeepProven(*store, "+7.1+any", 7, "../x", 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(*store->HasProven("+7.0+any", common::Sha256Hex("other")));
  store.reset();
  store = engine().OpenBlobs();
  EXPECT_TRUE(*store->HasProven("+7.0+any", hash)) << "after a restart";
}

TEST_P(BlobStoreContract, AnOwnersUploadGoesOnAndIsHashedFromItsBeginning) {
  auto store = engine().OpenBlobs();
  const std::string bytes(3'000'000, 'x');
  Blobs::OpenedUpload upload{
      .owner = "vision", .sha256 = common::Sha256Hex(bytes), .size = bytes.size()};
  ASSERT_TRUE((*store->OpenUpload(upload))->Append(bytes.substr(0, 2'500'000)).ok());
  store = engine().OpenBlobs();
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
  const auto store = engine().OpenBlobs();
  const Blobs::OpenedUpload upload{
      .owner = "vision", .sha256 = common::Sha256Hex("expected"), .size = 8};
  auto opened = *store->OpenUpload(upload);
  ASSERT_TRUE(*opened->CatchUp() && opened->Append("received").ok());
  EXPECT_EQ(opened->Commit().code(), absl::StatusCode::kDataLoss);
  opened.reset();
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
