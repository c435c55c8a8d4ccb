// Objects as streams for an upload: resumed anywhere, never wrong.
#include "tree/object_source.h"

#include "tests/tree/tree_fixture.h"

namespace muster::tree {
namespace {

class TreeObjects : public TreeCase {
 protected:
  void SetUp() override {
    TreeCase::SetUp();
    for (int i = 0; i < 5; ++i) {
      Write("small" + std::to_string(i), std::string(50'000, static_cast<char>('a' + i)));
    }
    Write("same", std::string(50'000, 'a'));
    Write("large", std::string(kOwnObjectBytes + 12'345, 'l'));
    snapshot_ = *Take();
    root_ = common::UniqueFd(open(Root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  uint32_t Number(bool large) const {
    return (snapshot_.placement.objects[0].size > kOwnObjectBytes) == large ? 0u : 1u;
  }

  Snapshot snapshot_;
  common::UniqueFd root_;
};

TEST_F(TreeObjects, ResumeAtAnyOffsetWithTheSameBytes) {
  ASSERT_EQ(snapshot_.placement.objects.size(), 2u);
  ObjectSource source(root_.get(), snapshot_.manifest, snapshot_.placement);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(source.IsComplete(i));
    const std::string whole = *ReadFrom(source, i, 0);
    EXPECT_EQ(DigestOf(whole), snapshot_.placement.objects[i].name);
    for (const uint64_t offset :
         {uint64_t{1}, uint64_t{49'999}, uint64_t{50'000}, uint64_t{120'000},
          uint64_t{whole.size() - 1}, uint64_t{whole.size()}}) {
      EXPECT_EQ(*ReadFrom(source, i, offset), whole.substr(offset)) << offset;
    }
  }
  EXPECT_EQ(snapshot_.placement.objects[Number(false)].size, 250'000u);
}

TEST_F(TreeObjects, NameTheFileThatChangedSinceTheSnapshot) {
  ObjectSource source(root_.get(), snapshot_.manifest, snapshot_.placement);
  Write("small3", std::string(50'000, 'X'));
  const absl::Status small = ReadFrom(source, Number(false), 0).status();
  EXPECT_EQ(small.code(), absl::StatusCode::kAborted);
  EXPECT_NE(small.message().find("small3 changed while it was sent"), absl::string_view::npos);
  EXPECT_TRUE(source.Open(Number(true)).ok());
  // The last byte alone is another: it is not given away.
  Write("large", std::string(kOwnObjectBytes + 12'344, 'l') + "X");
  for (const uint64_t offset : {uint64_t{0}, uint64_t{kOwnObjectBytes}}) {
    EXPECT_NE(ReadFrom(source, Number(true), offset).status().message().find("large changed"),
              absl::string_view::npos);
  }
  ASSERT_EQ(truncate(Path("large").c_str(), 10), 0);
  EXPECT_FALSE(ReadFrom(source, Number(true), 0).ok());
  ASSERT_EQ(unlink(Path("large").c_str()), 0);
  EXPECT_FALSE(ReadFrom(source, Number(true), 0).ok());
}

TEST_F(TreeObjects, DoNotFollowALinkThatTookAFilesPlace) {
  ObjectSource source(root_.get(), snapshot_.manifest, snapshot_.placement);
  ASSERT_EQ(rename(Path("large").c_str(), (base_ + "/elsewhere").c_str()), 0);
  Link(base_ + "/elsewhere", "large");
  EXPECT_EQ(ReadFrom(source, Number(true), 0).status().code(), absl::StatusCode::kAborted);
}

TEST_F(TreeObjects, AreIncompleteOnceAPartBelongsToNoFile) {
  Write("small2", "other");
  const absl::StatusOr<Snapshot> next = Take();
  ObjectSource source(root_.get(), next->manifest, next->placement);
  int complete = 0;
  for (uint32_t i = 0; i < next->placement.objects.size(); ++i) {
    const bool old = next->placement.objects[i].size == 250'000;
    EXPECT_EQ(source.IsComplete(i), !old);
    complete += source.IsComplete(i) ? 1 : 0;
  }
  EXPECT_EQ(complete, 2);
}

}  // namespace
}  // namespace muster::tree
