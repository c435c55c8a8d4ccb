// Blobs on real files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <string>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/store_parts/blobs.h"
#include "coordinator/store_parts/upload_proofs.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/put_blob.h"

namespace muster::coordinator {
namespace {

std::unique_ptr<Blobs> Open(const Paths& paths) {
  return *Blobs::Open(LocalBlobStore::At(paths), paths);
}

TEST(LocalBlobStoreTest, ACorruptedBlobIsFound) {
  TempDir dir;
  const Paths paths(dir.path());
  auto store = Open(paths);
  const std::string hash = *PutBlob(*store, "good bytes");
  ASSERT_TRUE(common::WriteFileDurably(paths.BlobFile(hash), "evil bytes").ok());
  EXPECT_EQ(store->Verify(hash).code(), absl::StatusCode::kDataLoss);
}

TEST(LocalBlobStoreTest, AnUploadWithoutAnOwnerFromAnOlderVersionGoesAtTheStart) {
  TempDir dir;
  const Paths paths(dir.path());
  const std::string hash = common::Sha256Hex("good bytes");
  ASSERT_TRUE(Open(paths)->OpenUpload({.owner = "vision", .sha256 = hash, .size = 10}).ok());
  const std::string older = paths.UploadRoot() + "/" + hash + ".part";
  ASSERT_TRUE(common::WriteFileDurably(older, "good").ok());
  auto store = Open(paths);
  EXPECT_FALSE(common::Exists(older));
  EXPECT_EQ(store->Partials("vision").size(), 1u);
}

TEST(LocalBlobStoreTest, ProofsThatNobodyAskedForInADayGo) {
  TempDir dir;
  const Paths paths(dir.path());
  const UploadProofs proofs(paths);
  const std::string hash = common::Sha256Hex("weights"), other = common::Sha256Hex("other");
  for (const std::string& each : {hash, other}) ASSERT_TRUE(proofs.Add("+7.0+any", each).ok());
  const std::string directory = paths.ProofRoot() + "/+7.0+any/";
  const auto make_old = [&](const std::string& each) {
    const timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    ASSERT_EQ(utimensat(AT_FDCWD, (directory + each).c_str(), then, 0), 0);
  };
  const FileAge age(FileAge::Steady::now() - FileAge::kFirstJudgedAfter - std::chrono::minutes(1));
  make_old(hash);
  EXPECT_TRUE(*proofs.Has("+7.0+any", hash)) << "and it is young again";
  make_old(other);
  proofs.RemoveUnused(age);
  EXPECT_TRUE(*proofs.Has("+7.0+any", hash));
  EXPECT_FALSE(*proofs.Has("+7.0+any", other));
  EXPECT_FALSE(proofs.Has("../proven/+7.0+any", hash).ok());
  make_old(hash);
  proofs.RemoveUnused(age);
  EXPECT_FALSE(common::Exists(directory)) << "nothing is left of the owner";
}

// A transfer longer than one call may last is not read again from its beginning at each: only then
// does it get on.
TEST(LocalBlobStoreTest, WhatWasHashedIsNotReadAgainBeforeTheStoreIsOpenedAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  const std::string bytes = "good bytes";
  const Blobs::OpenedUpload whole{
      .owner = "vision", .sha256 = common::Sha256Hex(bytes), .size = bytes.size()};
  Blobs::OpenedUpload rest = whole;
  rest.offset = 4;
  const std::string file = paths.UploadFile(whole.sha256, whole.owner);
  auto store = Open(paths);
  ASSERT_TRUE((*store->OpenUpload(whole))->Append("good").ok());
  // A reader would see it.
  ASSERT_TRUE(common::WriteFileDurably(file, "evil").ok());
  auto again = *store->OpenUpload(rest);
  ASSERT_TRUE(*again->CatchUp() && again->Append(" bytes").ok());
  EXPECT_TRUE(again->Commit().ok());
  again.reset();

  ASSERT_TRUE((*store->OpenUpload(whole))->Append("good").ok());
  ASSERT_TRUE(common::WriteFileDurably(file, "evil").ok());
  store = Open(paths);
  again = *store->OpenUpload(rest);
  ASSERT_TRUE(*again->CatchUp() && again->Append(" bytes").ok());
  EXPECT_EQ(again->Commit().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store->Arrived("vision", whole.sha256), 0u) << "thrown away";
}

}  // namespace
}  // namespace muster::coordinator
