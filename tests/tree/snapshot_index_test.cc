// The client's cache file: believed only where it can be.
#include "tree/snapshot_index.h"

#include "tests/tree/tree_fixture.h"

namespace muster::tree {
namespace {

SnapshotIndex SampleIndex() {
  SnapshotIndex index;
  index.taken_ms = 1'700'000'000'000;
  index.objects = {{DigestOf("pack"), 100}};
  index.files = {{"a/b", {40, 1, 2, 3}, DigestOf("b"), {0, 60}},
                 {"a/c", {0, 4, 5, 6}, DigestOf(""), {}}};
  return index;
}

TEST(TreeIndex, SurvivesItsEncoding) {
  const std::string bytes = EncodeIndex("/r", SampleIndex());
  const absl::StatusOr<SnapshotIndex> index = DecodeIndex(bytes, "/r");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->taken_ms, 1'700'000'000'000);
  ASSERT_EQ(index->files.size(), 2u);
  EXPECT_EQ(index->files[0].path, "a/b");
  EXPECT_EQ(index->files[0].stamp, (Stamp{40, 1, 2, 3}));
  EXPECT_EQ(index->files[0].place.offset, 60u);
  EXPECT_EQ(EncodeIndex("/r", *index), bytes);
}

TEST(TreeIndex, DamagedOrOfAnotherRootIsNotBelieved) {
  const std::string bytes = EncodeIndex("/r", SampleIndex());
  EXPECT_FALSE(DecodeIndex(bytes, "/other").ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(DecodeIndex(changed, "/r").ok()) << i;
    EXPECT_FALSE(DecodeIndex(bytes.substr(0, i), "/r").ok()) << i;
  }
}

TEST(TreeIndex, WithAPlaceOutsideOfItsObjectIsNotBelieved) {
  SnapshotIndex index = SampleIndex();
  index.files[0].place.offset = 61;
  EXPECT_FALSE(DecodeIndex(EncodeIndex("/r", index), "/r").ok());
  index.files[0].place = {1, 0};
  EXPECT_FALSE(DecodeIndex(EncodeIndex("/r", index), "/r").ok());
}

TEST(TreeIndex, AFileChangedAboutWhenTheIndexWasMadeIsRacy) {
  constexpr int64_t kMs = 1'000'000, kTaken = 1'700'000'000'000;
  const auto at = [](int64_t ms) { return Stamp{1, ms * kMs + 1, ms * kMs + 1, 1}; };
  EXPECT_TRUE(IsRacy(at(kTaken), kTaken));
  EXPECT_TRUE(IsRacy(at(kTaken + 5'000), kTaken));
  EXPECT_TRUE(IsRacy(at(kTaken - 50), kTaken));
  EXPECT_FALSE(IsRacy(at(kTaken - 200), kTaken));
  // An old mtime that someone set does not hide a new ctime.
  EXPECT_TRUE(IsRacy({1, 5, kTaken * kMs, 1}, kTaken));
  // A file system without nanoseconds stamps once in one or two seconds.
  const Stamp coarse{1, (kTaken - 1'000) * kMs, (kTaken - 1'000) * kMs, 1};
  EXPECT_TRUE(IsRacy(coarse, kTaken));
  EXPECT_FALSE(IsRacy(coarse, kTaken + 2'000));
}

}  // namespace
}  // namespace muster::tree
