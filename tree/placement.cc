#include "tree/placement.h"

#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/bytes.h"

namespace muster::tree {
namespace {

constexpr std::string_view kPlacementMagic = "MSTRPLC1";
constexpr size_t kObjectBytes = 32 + 8;

bool HasPlace(const Entry& entry) { return entry.IsFile() && entry.size > 0; }

absl::Status Misplaced(const Entry& entry, std::string_view why) {
  return absl::InvalidArgumentError(common::StrCat("the tree's placement is not valid: \"",
                                                   common::Printable(entry.path), "\" ", why));
}

absl::Status CheckPlace(const Entry& entry, const Place& place, const Placement& placement) {
  if (place.object >= placement.objects.size()) return Misplaced(entry, "is in no object");
  const Object& object = placement.objects[place.object];
  if (entry.size > object.size || place.offset > object.size - entry.size) {
    return Misplaced(entry, "ends after the end of its object");
  }
  if (entry.size >= kOwnObjectBytes) {
    return entry.content == object.name && entry.size == object.size
               ? absl::OkStatus()
               : Misplaced(entry, "is large and not its own object");
  }
  return object.size <= kPackBytesMax ? absl::OkStatus()
                                      : Misplaced(entry, "is in too large a pack");
}

absl::Status ReadObjects(ByteReader& in, Placement& placement) {
  const uint32_t count = in.U32();
  if (count > kEntriesMax || count > in.left() / kObjectBytes) {
    return absl::InvalidArgumentError("the tree's placement declares more objects than it has");
  }
  placement.objects.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const Digest name = in.Hash();
    const uint64_t size = in.U64();
    if (i > 0 && !(placement.objects.back().name < name)) {
      return absl::InvalidArgumentError("the tree's placement names its objects out of order");
    }
    placement.objects.push_back({name, size});
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodePlacement(const Manifest& manifest, const Digest& identity,
                            const Placement& placement) {
  // Both come from the same snapshot of ours.
  CHECK(placement.places.size() == manifest.entries.size());
  ByteWriter out;
  out.Raw(kPlacementMagic);
  out.Hash(identity);
  out.U32(static_cast<uint32_t>(placement.objects.size()));
  for (const Object& object : placement.objects) {
    out.Hash(object.name);
    out.U64(object.size);
  }
  for (size_t i = 0; i < placement.places.size(); ++i) {
    if (!HasPlace(manifest.entries[i])) continue;
    out.U32(placement.places[i].object);
    out.U64(placement.places[i].offset);
  }
  return out.Take();
}

absl::StatusOr<Placement> DecodePlacement(std::string_view bytes, const Manifest& manifest,
                                          const Digest& identity) {
  ByteReader in(bytes);
  if (in.Raw(kPlacementMagic.size()) != kPlacementMagic) {
    return absl::InvalidArgumentError("this is not a placement of a tree, or of a newer version");
  }
  if (in.Hash() != identity) {
    return absl::InvalidArgumentError("the placement belongs to another tree");
  }
  Placement placement;
  RETURN_IF_ERROR(ReadObjects(in, placement));
  placement.places.resize(manifest.entries.size());
  std::vector<bool> used(placement.objects.size());
  for (size_t i = 0; i < manifest.entries.size() && in.ok(); ++i) {
    if (!HasPlace(manifest.entries[i])) continue;
    placement.places[i] = {in.U32(), in.U64()};
    if (!in.ok()) break;
    RETURN_IF_ERROR(CheckPlace(manifest.entries[i], placement.places[i], placement));
    used[placement.places[i].object] = true;
  }
  if (!in.AtEnd()) {
    return absl::InvalidArgumentError("the tree's placement is cut, too long or damaged");
  }
  for (const bool each : used) {
    if (!each) return absl::InvalidArgumentError("the tree's placement names an unused object");
  }
  return placement;
}

}  // namespace muster::tree
