// What describes a tree, from any client: a manifest; behind it a placement without its head, and an
// index without its checksum, as both would never be right by chance.
#include "common/text/relative_path.h"
#include "fuzz/harness.h"
#include "tree/bytes.h"
#include "tree/manifest.h"
#include "tree/placement.h"
#include "tree/snapshot_index.h"

namespace muster::tree {
namespace {

void CheckManifest(const Manifest& manifest, std::string_view bytes) {
  FUZZ_EXPECT(Encode(manifest) == bytes);
  const Entry* before = nullptr;
  for (const Entry& entry : manifest.entries) {
    FUZZ_EXPECT(common::StaysInside(entry.path) && entry.path.size() <= kPathBytesMax);
    FUZZ_EXPECT(before == nullptr || PathLess(before->path, entry.path));
    FUZZ_EXPECT(entry.kind != Kind::kLink || (!entry.target.empty() && entry.target[0] != '/'));
    before = &entry;
  }
  FUZZ_EXPECT(manifest.TotalBytes() <= kTreeBytesMax);
}

void CheckPlacement(const Manifest& manifest, std::string_view bytes, std::string_view tail) {
  const Digest identity = IdentityOf(bytes);
  ByteWriter whole;
  whole.Raw("MSTRPLC1");
  whole.Hash(identity);
  whole.Raw(tail);
  const absl::StatusOr<Placement> placement = DecodePlacement(whole.bytes(), manifest, identity);
  if (!placement.ok()) return;
  FUZZ_EXPECT(EncodePlacement(manifest, identity, *placement) == whole.bytes());
  for (size_t i = 0; i < manifest.entries.size(); ++i) {
    const Place& place = placement->places[i];
    if (place.object == kNoObject) continue;
    FUZZ_EXPECT(place.offset + manifest.entries[i].size <= placement->objects[place.object].size);
  }
}

void CheckIndex(std::string_view body) {
  ByteWriter whole;
  whole.Raw(body);
  whole.Hash(DigestOf(body));
  const absl::StatusOr<SnapshotIndex> index = DecodeIndex(whole.bytes(), "/r");
  if (index.ok()) FUZZ_EXPECT(DecodeIndex(EncodeIndex("/r", *index), "/r").ok());
}

}  // namespace
}  // namespace muster::tree

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  testing::Pieces input(testing::Text(data, size));
  std::string_view bytes, tail;
  if (!input.Next(&bytes)) return 0;
  const bool has_tail = input.Next(&tail);
  const absl::StatusOr<tree::Manifest> manifest = tree::Decode(bytes);
  if (manifest.ok()) {
    tree::CheckManifest(*manifest, bytes);
    if (has_tail) tree::CheckPlacement(*manifest, bytes, tail);
  }
  tree::CheckIndex(input.Rest());
  return 0;
}
