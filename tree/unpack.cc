#include "tree/unpack.h"

#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::tree {
namespace {

absl::Status WrongBytes(const Object& object) {
  return absl::DataLossError(common::StrCat("the bytes of object ", Hex(object.name),
                                            " are not those that the tree's manifest names"));
}

absl::Status CopyVerified(const Entry& entry, const Place& place, const Object& object,
                          const ReadObject& read, std::vector<char>& buffer, int fd) {
  common::Sha256 hash;
  for (uint64_t done = 0; done < entry.size;) {
    const size_t wanted = std::min<uint64_t>(buffer.size(), entry.size - done);
    ASSIGN_OR_RETURN(const size_t count, read(object, place.offset + done, buffer.data(), wanted));
    CHECK(count <= wanted);  // our own reader, which returns no more than requested
    if (count == 0) return WrongBytes(object);
    hash.Update({buffer.data(), count});
    RETURN_IF_ERROR(common::WriteAll(fd, {buffer.data(), count}));
    done += count;
  }
  return Finish(hash) == entry.content ? absl::OkStatus() : WrongBytes(object);
}

}  // namespace

absl::Status Unpack(const Manifest& manifest, const Placement& placement, const ReadObject& read,
                    const TreeTarget& target) {
  std::vector<char> buffer(kOwnObjectBytes);
  return WriteTree(manifest, target, [&](size_t at, int fd) {
    const Entry& entry = manifest.entries[at];
    if (entry.size == 0) return absl::OkStatus();
    const Place& place = placement.places[at];
    return CopyVerified(entry, place, placement.objects[place.object], read, buffer, fd);
  });
}

}  // namespace muster::tree
