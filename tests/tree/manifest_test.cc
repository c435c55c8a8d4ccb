// The manifest: one encoding for one content, and what a foreign one may not contain.
#include "tree/manifest.h"

#include "tests/tree/tree_fixture.h"
#include "tree/bytes.h"

namespace muster::tree {
namespace {

Manifest Sample() {
  return {{DirectoryEntry("a"), FileEntry("a/b", "hello"), LinkEntry("a/l", "../a.txt"),
           DirectoryEntry("a/z"), FileEntry("a.txt", ""), LinkEntry("l", "a/b")}};
}

void ExpectRefused(const Manifest& manifest, const std::string& why) {
  const absl::Status status = Decode(Encode(manifest)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
  EXPECT_NE(status.message().find(why), absl::string_view::npos) << status;
}

TEST(TreeManifest, SurvivesItsEncoding) {
  const std::string bytes = Encode(Sample());
  const absl::StatusOr<Manifest> manifest = Decode(bytes);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(Described(*manifest), "a d|a/b f|a/l -> ../a.txt|a/z d|a.txt f|l -> a/b");
  EXPECT_EQ(manifest->TotalBytes(), 5u);
  EXPECT_EQ(Encode(*manifest), bytes);
  EXPECT_TRUE(Decode(Encode({})).ok());
}

// What is on disks and in caches must be found again by later versions.
TEST(TreeManifest, IsTheSameBytesForever) {
  EXPECT_EQ(Hex(IdentityOf(Encode(Sample()))),
            "bc14053f0ec6e035a6f9b7f787f44c466c9372c676921a90d814a69f202d9b4f");
}

TEST(TreeManifest, IsSortedSoThatADirectoryIsFollowedByWhatIsInIt) {
  EXPECT_TRUE(PathLess("a", "a/b"));
  EXPECT_TRUE(PathLess("a/b", "a.txt"));
  EXPECT_TRUE(PathLess("a/b/c", "a/b.c"));
  EXPECT_FALSE(PathLess("a.txt", "a/b"));
  EXPECT_FALSE(PathLess("a", "a"));
  EXPECT_TRUE(PathLess("a", "\xC3\xA4"));
}

TEST(TreeManifest, WithNamesThatNoTreeCanHaveIsRefused) {
  ExpectRefused({{FileEntry("../x", "1")}}, "component");
  ExpectRefused({{DirectoryEntry("a"), FileEntry("a/./x", "1")}}, "component");
  ExpectRefused({{DirectoryEntry("a"), FileEntry("a//x", "1")}}, "component");
  ExpectRefused({{FileEntry("a/", "1")}}, "component");
  ExpectRefused({{FileEntry("/etc/passwd", "1")}}, "absolute");
  ExpectRefused({{FileEntry(std::string("a\0b", 3), "1")}}, "NUL");
  ExpectRefused({{FileEntry("a\xFF", "1")}}, "UTF-8");
  ExpectRefused({{FileEntry(std::string(256, 'a'), "1")}}, "255 bytes");
  ExpectRefused({{FileEntry("", "1")}}, "no name");
  EXPECT_TRUE(Decode(Encode({{FileEntry(std::string(255, 'a'), "1")}})).ok());
  EXPECT_TRUE(Decode(Encode({{FileEntry("line\nbreak", "1")}})).ok());
}

TEST(TreeManifest, DeeperThanADirectoryCanBeOpenedIsRefused) {
  Manifest manifest;
  std::string path;
  for (size_t i = 0; i < kDepthMax; ++i) {
    path += path.empty() ? "d" : "/d";
    manifest.entries.push_back(DirectoryEntry(path));
  }
  EXPECT_TRUE(Decode(Encode(manifest)).ok());
  manifest.entries.push_back(DirectoryEntry(path + "/d"));
  ExpectRefused(manifest, "128 directories deep");
}

TEST(TreeManifest, OutOfOrderTwiceOrBelowAFileIsRefused) {
  ExpectRefused({{FileEntry("b", "1"), FileEntry("a", "1")}}, "order");
  ExpectRefused({{FileEntry("a", "1"), FileEntry("a", "1")}}, "there twice");
  ExpectRefused({{FileEntry("a", "1"), FileEntry("a/b", "1")}}, "not in a directory");
  ExpectRefused({{LinkEntry("a", "b"), FileEntry("a/x", "1"), DirectoryEntry("b")}},
                "not in a directory");
  ExpectRefused({{FileEntry("a/b", "1")}}, "not in a directory");
  ExpectRefused({{DirectoryEntry("a"), FileEntry("b", "1"), FileEntry("b/c", "1")}},
                "not in a directory");
}

TEST(TreeManifest, WithSizesThatCannotBeIsRefused) {
  Entry huge = FileEntry("a", "1");
  huge.size = kTreeBytesMax;
  Entry other = FileEntry("b", "1");
  other.size = UINT64_MAX;
  ExpectRefused({{huge, other}}, "1 TiB");
  Entry empty = FileEntry("a", "");
  empty.content = DigestOf("x");
  ExpectRefused({{empty}}, "contradicts");
}

TEST(TreeManifest, WithALinkThatLeadsOutIsRefused) {
  ExpectRefused({{LinkEntry("l", "/etc/passwd")}}, "absolute");
  ExpectRefused({{LinkEntry("l", "..")}}, "leads out");
  ExpectRefused({{DirectoryEntry("a"), LinkEntry("a/l", "../../x")}}, "leads out");
  ExpectRefused({{LinkEntry("l", "")}}, "to nothing");
  // It looks as if it stayed in a/, but a/b is a link to the root's own c.
  ExpectRefused({{DirectoryEntry("a"), LinkEntry("a/b", "../c"), DirectoryEntry("c"),
                  LinkEntry("l", "a/b/../../x")}},
                "leads out");
  ExpectRefused({{LinkEntry("l", "m"), LinkEntry("m", "l")}}, "more than 40 links");
  EXPECT_TRUE(Decode(Encode({{DirectoryEntry("a"), LinkEntry("a/l", "../x/..//./y")}})).ok());
  EXPECT_TRUE(Decode(Encode({{LinkEntry("l", "not/there")}})).ok());
}

TEST(TreeManifest, WhoseLinksWouldTakeHoursToFollowIsRefused) {
  Manifest manifest;
  std::string dots(4'000, '.');
  for (size_t i = 1; i < dots.size(); i += 2) dots[i] = '/';  // "./././." …
  for (int i = 0; i < 3'000; ++i) {
    std::string name = "d" + std::to_string(100'000 + i);
    manifest.entries.push_back(DirectoryEntry(name));
    std::string target;
    for (int k = 0; k < 1'000; ++k) target += "a/../";
    target.resize(4'000);
    manifest.entries.push_back(LinkEntry(name + "/l", target));
  }
  ExpectRefused(manifest, "too long to follow");
}

TEST(TreeManifest, OfFewBytesThatWouldBecomeManyIsRefused) {
  ByteWriter out;
  out.Raw("MSTRTRE1");
  out.U32(80'000);
  std::string before;
  std::string directory;
  for (int i = 0; i < 15; ++i) directory += (directory.empty() ? "" : "/") + std::string(250, 'x');
  size_t count = 0;
  for (size_t end = 250; end <= directory.size(); end += 251, ++count) {
    out.U8(3);
    out.Path(directory.substr(0, end), before);
    before = directory.substr(0, end);
  }
  for (; count < 80'000; ++count) {
    const std::string path = directory + "/" + std::to_string(1'000'000 + count);
    out.U8(3);
    out.Path(path, before);
    before = path;
  }
  EXPECT_LT(out.bytes().size(), 2u << 20);
  const absl::Status status = Decode(out.bytes()).status();
  EXPECT_NE(status.message().find("256 MiB of names"), absl::string_view::npos) << status;
}

TEST(TreeManifest, CutOrWithABitChangedIsRefusedOrAnotherTree) {
  const std::string bytes = Encode(Sample());
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_FALSE(Decode(bytes.substr(0, i)).ok()) << i;
  EXPECT_FALSE(Decode(bytes + "x").ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    const absl::StatusOr<Manifest> manifest = Decode(changed);
    if (!manifest.ok()) continue;
    EXPECT_EQ(Encode(*manifest), changed);
  }
  EXPECT_FALSE(Decode("MSTRTRE2").ok());
}

TEST(TreeManifest, HasExactlyOneEncoding) {
  ByteWriter out;
  out.Raw("MSTRTRE1");
  out.U32(2);
  for (const char* path : {"ab", "ac"}) {  // "ac" without sharing its "a"
    out.U8(3);
    out.Path(path, "");
  }
  const absl::Status status = Decode(out.bytes()).status();
  EXPECT_NE(status.message().find("one encoding"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace muster::tree
