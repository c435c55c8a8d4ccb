// Which contents share a pack, and when packs are made again.
#include "tree/packer.h"

#include "tests/tree/tree_fixture.h"

namespace muster::tree {
namespace {

TEST(TreePacker, FillsPacksInOrderAndNamesThemByTheirBytes) {
  Packer packer({}, 0);
  const std::string piece(700'000, 'x');
  std::string bytes;
  for (char c = 'a'; c < 'a' + 13; ++c) {
    std::string content = piece;
    content[0] = c;
    const Place place = packer.Append(DigestOf(content), content);
    EXPECT_EQ(place.object, c < 'a' + 12 ? 0u : 1u);
    if (place.object == 0) {
      EXPECT_EQ(place.offset, bytes.size());
      bytes += content;
    }
    EXPECT_EQ(packer.Find(DigestOf(content))->offset, place.offset);
  }
  packer.Finish();
  ASSERT_EQ(packer.objects().size(), 2u);
  EXPECT_EQ(packer.objects()[0].name, DigestOf(bytes));
  EXPECT_EQ(packer.objects()[0].size, bytes.size());
  EXPECT_LE(bytes.size(), kPackBytesMax);
}

TEST(TreePacker, AbandonedObjectsPlaceNothing) {
  Packer packer({{DigestOf("old"), 10}}, 1);
  packer.Know(DigestOf("x"), {0, 3});
  EXPECT_TRUE(packer.Find(DigestOf("x")).has_value());
  packer.Abandon({true});
  EXPECT_FALSE(packer.Find(DigestOf("x")).has_value());
}

TEST(TreePacker, PacksOfWhichLessThanHalfIsUsedAreSparse) {
  const std::vector<Object> objects = {{DigestOf("1"), 4 << 20},
                                       {DigestOf("2"), 4 << 20},
                                       {DigestOf("3"), 4 << 20},
                                       {DigestOf("4"), 4 << 20}};
  EXPECT_EQ(SparsePacks(objects, {4 << 20, 2 << 20, (2 << 20) - 1, 0}),
            (std::vector<bool>{false, false, true, false}));
}

TEST(TreePacker, ManySmallPacksAreMerged) {
  std::vector<Object> objects(64, {DigestOf("x"), 100});
  std::vector<uint64_t> used(64, 100);
  EXPECT_EQ(SparsePacks(objects, used), std::vector<bool>(64, false));
  objects.push_back({DigestOf("y"), 100});
  used.push_back(60);
  EXPECT_EQ(SparsePacks(objects, used), std::vector<bool>(65, true));
}

}  // namespace
}  // namespace muster::tree
