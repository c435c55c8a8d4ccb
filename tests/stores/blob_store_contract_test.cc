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

}  // namespace
}  // namespace muster::coordinator
