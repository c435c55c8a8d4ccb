// The placement of foreign origin: what it may claim about a manifest.
#include "tree/placement.h"

#include "tests/tree/tree_fixture.h"

namespace muster::tree {
namespace {

class TreePlacement : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& why) {
    const absl::Status status =
        DecodePlacement(EncodePlacement(manifest_, identity_, placement_), manifest_, identity_)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_NE(status.message().find(why), absl::string_view::npos) << status;
  }

  const std::string large_ = std::string(kOwnObjectBytes, 'x');
  Manifest manifest_{
      {FileEntry("a", "hello"), DirectoryEntry("b"), FileEntry("c", large_), FileEntry("e", "")}};
  const Digest identity_ = IdentityOf(Encode(manifest_));
  Object pack_{DigestOf("pack"), 10}, own_{DigestOf(large_), kOwnObjectBytes};
  bool pack_first_ = pack_.name < own_.name;
  uint32_t pack_at_ = pack_first_ ? 0u : 1u;
  Placement placement_{pack_first_ ? std::vector{pack_, own_} : std::vector{own_, pack_},
                       {{pack_at_, 5}, {}, {1 - pack_at_, 0}, {}}};
};

TEST_F(TreePlacement, SurvivesItsEncoding) {
  const std::string bytes = EncodePlacement(manifest_, identity_, placement_);
  const absl::StatusOr<Placement> placement = DecodePlacement(bytes, manifest_, identity_);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->places[0].object, pack_at_);
  EXPECT_EQ(placement->places[0].offset, 5u);
  EXPECT_EQ(placement->places[1].object, kNoObject);
  EXPECT_EQ(EncodePlacement(manifest_, identity_, *placement), bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(DecodePlacement(bytes.substr(0, i), manifest_, identity_).ok()) << i;
  }
}

TEST_F(TreePlacement, OfAnotherTreeIsRefused) {
  const std::string bytes = EncodePlacement(manifest_, DigestOf("other"), placement_);
  EXPECT_FALSE(DecodePlacement(bytes, manifest_, identity_).ok());
}

TEST_F(TreePlacement, BeyondTheEndOfAnObjectIsRefused) {
  placement_.places[0].offset = 6;
  ExpectRefused("after the end");
  placement_.places[0].offset = UINT64_MAX;
  ExpectRefused("after the end");
  placement_.places[0] = {7, 0};
  ExpectRefused("in no object");
}

TEST_F(TreePlacement, OfALargeFileInAPackOrInAHugePackIsRefused) {
  placement_.objects[pack_at_].size = 3 * kOwnObjectBytes;
  placement_.places[2] = {pack_at_, 0};
  ExpectRefused("not its own object");
  placement_.places[2] = {1 - pack_at_, 0};
  placement_.objects[pack_at_].size = kPackBytesMax + 1;
  ExpectRefused("too large a pack");
}

TEST_F(TreePlacement, WithUnusedOrUnsortedObjectsIsRefused) {
  std::swap(placement_.objects[0], placement_.objects[1]);
  ExpectRefused("out of order");
  placement_.objects = {pack_};
  placement_.places[2] = {0, 0};
  manifest_.entries[2] = FileEntry("c", "12345");
  placement_.objects.push_back({DigestOf("unused"), 1});
  if (!(pack_.name < placement_.objects[1].name)) {
    std::swap(placement_.objects[0], placement_.objects[1]);
    placement_.places[0].object = placement_.places[2].object = 1;
  }
  ExpectRefused("unused object");
}

}  // namespace
}  // namespace muster::tree
