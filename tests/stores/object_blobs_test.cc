// Blobs as objects of a shared store: named by the state, garbage once they are not, and never half there.
#include "coordinator/store_parts/object_blobs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/hash/sha256.h"
#include "common/problem.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/periodic/object_garbage.h"
#include "coordinator/periodic/object_mark.h"
#include "coordinator/periodic/object_move.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/object_names.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kHourMs = 3'600'000;

class LivedByHand final : public common::Clock {
 public:
  common::Now Read() const override { return now; }
  common::Now now;
};

class ObjectBlobsTest : public ::testing::Test {
 protected:
  ObjectBlobsTest() {
    EXPECT_TRUE(OpenSqliteJournal(paths_).ok());
    objects_ = *ObjectFiles::Open(store_.path());
    names_ = *SqliteObjectNames::Open(paths_, std::make_shared<WriteTurns>(), clock_);
    before_ = LocalBlobStore::At(paths_);
    blobs_ = std::make_shared<ObjectBlobs>(*objects_, *names_, "blobs/", before_, clock_);
    clock_.now.lived_ms = 100 * kHourMs;
  }

  std::string FileOf(const std::string& bytes) {
    const std::string path = dir_.path() + "/file" + std::to_string(++files_);
    std::ofstream(path) << bytes;
    return path;
  }
  std::string Put(BlobStore& blobs, const std::string& bytes) {
    const std::string sha256 = common::Sha256Hex(bytes);
    const absl::Status put = blobs.Put(FileOf(bytes), sha256);
    EXPECT_TRUE(put.ok()) << put;
    return sha256;
  }
  size_t CountObjects() { return objects_->List("blobs/", "")->objects.size(); }

  const TempDir dir_, store_;
  const Paths paths_{dir_.path()};
  LivedByHand clock_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<ObjectNames> names_;
  std::shared_ptr<BlobStore> before_;
  std::shared_ptr<ObjectBlobs> blobs_;
  int files_ = 0;
};

TEST_F(ObjectBlobsTest, ABlobIsReadWhereItWasPut) {
  const std::string blob = Put(*blobs_, "the bytes of a checkpoint");
  EXPECT_EQ(*blobs_->Size(blob), 25u);
  EXPECT_EQ(*blobs_->Read(blob, 4, 5), "bytes");
  EXPECT_EQ(*blobs_->Read(blob, 20, 100), "point");
  EXPECT_EQ(*blobs_->Read(blob, 25, 100), "");
  EXPECT_TRUE(absl::IsNotFound(blobs_->Size(common::Sha256Hex("other")).status()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(paths_.Root()), {}) > 0, true);
  EXPECT_FALSE(std::filesystem::exists(paths_.BlobFile(blob))) << "not in the data directory";
}

TEST_F(ObjectBlobsTest, ALargeOneIsSentInParts) {
  std::string bytes(ObjectBlobs::kInPartsAbove + 12'345, 'x');
  for (size_t i = 0; i < bytes.size(); i += 4'096) bytes[i] = static_cast<char>(i / 4'096);
  const std::string blob = Put(*blobs_, bytes);
  EXPECT_EQ(*blobs_->Size(blob), bytes.size());
  EXPECT_EQ(common::Sha256Hex(*blobs_->Read(blob, 0, bytes.size())), blob);
}

// A key is never used again: a reader of the old object has it until it is over.
TEST_F(ObjectBlobsTest, ASecondPutIsAnotherObjectAndTheFirstIsDoomed) {
  const std::string blob = Put(*blobs_, "same");
  const std::string first = (*names_->Find(blob))->key;
  EXPECT_EQ(Put(*blobs_, "same"), blob);
  EXPECT_NE((*names_->Find(blob))->key, first);
  EXPECT_EQ(CountObjects(), 2u);
  ObjectGarbage garbage(*objects_, *names_, "blobs/");
  ASSERT_TRUE(garbage.DeleteDoomed(clock_.now.lived_ms).ok());
  EXPECT_EQ(CountObjects(), 2u) << "someone may read it";
  ASSERT_TRUE(garbage.DeleteDoomed(clock_.now.lived_ms + kHourMs).ok());
  EXPECT_EQ(CountObjects(), 1u);
  EXPECT_EQ(*blobs_->Read(blob, 0, 9), "same");
}

TEST_F(ObjectBlobsTest, ADeletedBlobIsGoneAtOnceAndItsObjectLater) {
  const std::string blob = Put(*blobs_, "unused");
  EXPECT_EQ(*blobs_->List(std::chrono::hours(24)), std::vector<std::string>{});
  clock_.now.lived_ms += 25 * kHourMs;
  EXPECT_EQ(*blobs_->List(std::chrono::hours(24)), std::vector<std::string>{blob});
  EXPECT_TRUE(blobs_->Delete(blob));
  EXPECT_FALSE(blobs_->Delete(blob));
  EXPECT_TRUE(absl::IsNotFound(blobs_->Read(blob, 0, 9).status()));
  EXPECT_EQ(CountObjects(), 1u);
  ObjectGarbage garbage(*objects_, *names_, "blobs/");
  ASSERT_TRUE(garbage.DeleteDoomed(clock_.now.lived_ms + kHourMs).ok());
  EXPECT_EQ(CountObjects(), 0u);
  EXPECT_TRUE(names_->DoomedBefore(INT64_MAX, 9)->empty());
}

// As when a coordinator is killed between the put and the name, or was deposed meanwhile.
TEST_F(ObjectBlobsTest, WhatWasNeverNamedIsDeletedOnceItWasSeenLongAgo) {
  Put(*blobs_, "named");
  ASSERT_TRUE(objects_->Put("blobs/aa/never/named", std::string_view("orphan")).ok());
  ASSERT_TRUE(objects_->BeginUpload("blobs/aa/never/completed").ok());
  ASSERT_TRUE(objects_->Put("of/others", std::string_view("not ours")).ok());
  ObjectGarbage garbage(*objects_, *names_, "blobs/");
  for (const int hours : {0, 12, 23}) {
    ASSERT_TRUE(garbage.DeleteUnnamed(hours * kHourMs).ok());
    EXPECT_EQ(CountObjects(), 2u) << hours;
    EXPECT_EQ(objects_->OpenUploads("")->uploads.size(), 1u);
  }
  ASSERT_TRUE(garbage.DeleteUnnamed(24 * kHourMs).ok());
  EXPECT_EQ(CountObjects(), 1u);
  EXPECT_TRUE(objects_->OpenUploads("")->uploads.empty());
  EXPECT_TRUE(objects_->Head("of/others").ok());
}

TEST_F(ObjectBlobsTest, AnotherStoreIsNoticed) {
  ASSERT_TRUE(CheckObjectMark(*objects_, *names_, "blobs/").ok()) << "the first one marks it";
  EXPECT_TRUE(CheckObjectMark(*objects_, *names_, "blobs/").ok());
  EXPECT_EQ(CountObjects(), 1u);
  EXPECT_EQ(common::Sha256Hex(kStoreMarkBytes), kStoreMark);
  EXPECT_TRUE(names_->NamedBefore(INT64_MAX)->empty()) << "never garbage";
  const TempDir dir;
  const auto other = *ObjectFiles::Open(dir.path());
  EXPECT_EQ(common::CodeOf(CheckObjectMark(*other, *names_, "blobs/")), "JC1641");
  std::filesystem::remove(dir.path() + "/.muster-objects");
  EXPECT_TRUE(absl::IsUnavailable(CheckObjectMark(*other, *names_, "blobs/")));
}

TEST_F(ObjectBlobsTest, BlobsOfBeforeAreReadFromTheDirectory) {
  const std::string old = Put(*before_, "of before");
  EXPECT_EQ(*blobs_->Read(old, 0, 9), "of before");
  EXPECT_EQ(*blobs_->Size(old), 9u);
  EXPECT_TRUE(blobs_->Delete(old));
  EXPECT_TRUE(absl::IsNotFound(blobs_->Size(old).status()));
}

TEST_F(ObjectBlobsTest, BlobsOfBeforeAreMovedOneAfterTheOther) {
  const std::string one = Put(*before_, "one"), two = Put(*before_, "two");
  const std::string rotten = Put(*before_, "three");
  std::ofstream(paths_.BlobFile(rotten)) << "threw";
  ObjectMove move(blobs_, paths_);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(*move.Next());
  EXPECT_FALSE(*move.Next());
  EXPECT_EQ(move.moved(), 2u);
  EXPECT_EQ(CountObjects(), 2u);
  EXPECT_TRUE(absl::IsNotFound(before_->Size(one).status()));
  EXPECT_EQ(*blobs_->Read(one, 0, 9), "one");
  EXPECT_EQ(*blobs_->Size(two), 3u);
  EXPECT_EQ(*blobs_->Read(rotten, 0, 9), "threw") << "stays where it was";
}

TEST_F(ObjectBlobsTest, ABlobThatTheStoreDoesNotTakeStays) {
  const std::string one = Put(*before_, "one");
  ObjectMove move(blobs_, paths_);
  std::filesystem::rename(store_.path(), store_.path() + ".away");
  EXPECT_FALSE(move.Next().ok());
  EXPECT_EQ(*blobs_->Read(one, 0, 9), "one");
  std::filesystem::rename(store_.path() + ".away", store_.path());
  EXPECT_TRUE(*move.Next());
  EXPECT_EQ(*blobs_->Read(one, 0, 9), "one");
  EXPECT_EQ(CountObjects(), 1u);
}

TEST_F(ObjectBlobsTest, AnObjectThatIsShorterThanItWasIsDamage) {
  const std::string blob = Put(*blobs_, "the bytes of a checkpoint");
  const std::string file = store_.path() + "/" + (*names_->Find(blob))->key;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(file, 10);
  EXPECT_TRUE(absl::IsDataLoss(blobs_->Read(blob, 0, 25).status()));
}

TEST_F(ObjectBlobsTest, ADeposedLeaderNamesNothing) {
  class Deposed final : public CommitLog {
    absl::StatusOr<uint64_t> Append(std::string_view) override {
      return absl::AbortedError("another coordinator leads");
    }
    void FailedHere(const absl::Status&) override {}
  } log;
  const auto names = *SqliteObjectNames::Open(
      paths_, std::make_shared<WriteTurns>(WriteTurns::kTimeout, &log), clock_);
  ObjectBlobs deposed(*objects_, *names, "blobs/", nullptr, clock_);
  const std::string bytes = "of a deposed leader";
  EXPECT_FALSE(deposed.Put(FileOf(bytes), common::Sha256Hex(bytes)).ok());
  EXPECT_TRUE(absl::IsNotFound(blobs_->Size(common::Sha256Hex(bytes)).status()));
  const std::string kept = Put(*blobs_, "kept");
  EXPECT_FALSE(deposed.Delete(kept));
  EXPECT_EQ(*blobs_->Read(kept, 0, 9), "kept");
}

}  // namespace
}  // namespace muster::coordinator
