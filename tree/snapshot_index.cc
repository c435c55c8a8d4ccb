#include "tree/snapshot_index.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "tree/bytes.h"

namespace muster::tree {
namespace {

constexpr std::string_view kIndexMagic = "MSTRIDX1";
constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kRowBytesMin = 4 + 4 * 8 + 32 + 4 + 8;

absl::Status Unusable(std::string_view why) { return absl::DataLossError(common::ToAbsl(why)); }

IndexedFile ReadRow(std::string_view before, ByteReader& in) {
  IndexedFile file;
  file.path = in.Path(before);
  file.stamp.size = in.U64();
  file.stamp.mtime_ns = static_cast<int64_t>(in.U64());
  file.stamp.ctime_ns = static_cast<int64_t>(in.U64());
  file.stamp.inode = in.U64();
  file.content = in.Hash();
  file.place.object = in.U32();
  file.place.offset = in.U64();
  return file;
}

bool IsSound(const IndexedFile& file, const SnapshotIndex& index) {
  if (file.stamp.size == 0) return file.place.object == kNoObject;
  if (file.place.object >= index.objects.size()) return false;
  const uint64_t size = index.objects[file.place.object].size;
  return file.stamp.size <= size && file.place.offset <= size - file.stamp.size;
}

}  // namespace

bool IsRacy(const Stamp& stamp, int64_t taken_ms) {
  constexpr int64_t kFineMs = 100, kCoarseMs = 2'000, kNsPerSecond = 1'000'000'000;
  const int64_t changed = std::max(stamp.mtime_ns, stamp.ctime_ns);
  const bool coarse = stamp.mtime_ns % kNsPerSecond == 0 && stamp.ctime_ns % kNsPerSecond == 0;
  return changed / kNsPerMs >= taken_ms - (coarse ? kCoarseMs : kFineMs);
}

std::string IndexPath(const std::string& cache_directory, const std::string& root) {
  return common::StrCat(cache_directory, "/", common::Sha256Hex(root).substr(0, 32), ".index");
}

std::string EncodeIndex(const std::string& root, const SnapshotIndex& index) {
  ByteWriter out;
  out.Reserve(64 + root.size() + index.files.size() * 112);
  out.Raw(kIndexMagic);
  out.U32(static_cast<uint32_t>(root.size()));
  out.Raw(root);
  out.U64(static_cast<uint64_t>(index.taken_ms));
  out.U32(static_cast<uint32_t>(index.objects.size()));
  for (const Object& object : index.objects) {
    out.Hash(object.name);
    out.U64(object.size);
  }
  out.U32(static_cast<uint32_t>(index.files.size()));
  std::string_view before;
  for (const IndexedFile& file : index.files) {
    out.Path(file.path, before);
    out.U64(file.stamp.size);
    out.U64(static_cast<uint64_t>(file.stamp.mtime_ns));
    out.U64(static_cast<uint64_t>(file.stamp.ctime_ns));
    out.U64(file.stamp.inode);
    out.Hash(file.content);
    out.U32(file.place.object);
    out.U64(file.place.offset);
    before = file.path;
  }
  out.Hash(DigestOf(out.bytes()));
  return out.Take();
}

absl::StatusOr<SnapshotIndex> DecodeIndex(std::string_view bytes, const std::string& root) {
  constexpr size_t kSumBytes = sizeof(Digest);
  if (bytes.size() < kSumBytes) return Unusable("is cut");
  ByteReader sum(bytes.substr(bytes.size() - kSumBytes));
  bytes.remove_suffix(kSumBytes);
  if (sum.Hash() != DigestOf(bytes)) return Unusable("is damaged");
  ByteReader in(bytes);
  if (in.Raw(kIndexMagic.size()) != kIndexMagic) return Unusable("is of another version");
  if (in.Raw(in.U32()) != root) return Unusable("is of another directory");
  SnapshotIndex index;
  index.taken_ms = static_cast<int64_t>(in.U64());
  const uint32_t objects = in.U32();
  if (objects > in.left() / (kSumBytes + 8)) return Unusable("is damaged");
  for (uint32_t i = 0; i < objects; ++i) {
    const Digest name = in.Hash();
    index.objects.push_back({name, in.U64()});
  }
  const uint32_t files = in.U32();
  if (files > in.left() / kRowBytesMin) return Unusable("is damaged");
  index.files.reserve(files);
  for (uint32_t i = 0; i < files && in.ok(); ++i) {
    index.files.push_back(ReadRow(i == 0 ? std::string_view() : index.files.back().path, in));
    if (!IsSound(index.files.back(), index)) return Unusable("is damaged");
  }
  if (!in.AtEnd()) return Unusable("is damaged");
  return index;
}

}  // namespace muster::tree
