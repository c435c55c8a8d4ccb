// Blobs on real files.
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/sha256.h"
#include "coordinator/local/blob_store.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

TEST(LocalBlobStoreTest, ACorruptedBlobIsFound) {
  TempDir dir;
  const Paths paths(dir.path());
  auto store = *LocalBlobStore::Open(paths);
  const std::string hash = common::Sha256Hex("good bytes");
  ASSERT_TRUE(store->Write(hash, 10, 0, "good bytes").ok());
  ASSERT_TRUE(*store->Finish(hash, 10));
  ASSERT_TRUE(common::WriteFileDurably(paths.BlobFile(hash), "evil bytes").ok());
  EXPECT_EQ(store->Verify(hash).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster::coordinator
