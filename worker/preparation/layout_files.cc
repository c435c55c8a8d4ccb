#include "worker/preparation/layout_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kMagicBytes = 4;
constexpr std::string_view kGzipMagic = "\x1f\x8b";

std::string BlobPath(const LayoutSource& source, const std::string& hex) {
  return StrCat(source.directory, source.is_oci ? "/blobs/sha256/" : "/", hex);
}

absl::Status Differs(const std::string& path, std::string_view how) {
  return absl::DataLossError(StrCat(path, " ", how));
}

absl::StatusOr<std::string> ReadBlob(const LayoutSource& source, const ImageBlob& blob) {
  const std::string path = BlobPath(source, blob.hex);
  ASSIGN_OR_RETURN(std::string bytes, common::ReadFile(path, kImageJsonBytesMax));
  if (common::Sha256Hex(bytes) != blob.hex) return Differs(path, "is not what its name promises");
  return bytes;
}

// Follows an index, or an index in an index, to the manifest for this machine.
absl::StatusOr<std::string> ReadManifest(const LayoutSource& source) {
  if (!source.is_oci)
    return common::ReadFile(source.directory + "/manifest.json", kImageJsonBytesMax);
  ASSIGN_OR_RETURN(std::string json,
                   common::ReadFile(source.directory + "/index.json", kImageJsonBytesMax));
  for (int level = 0; level < 2; ++level) {
    ASSIGN_OR_RETURN(const ImageBlob chosen, ChooseManifest(json));
    ASSIGN_OR_RETURN(json, ReadBlob(source, chosen));
    if (!IsImageIndex(json)) return json;
  }
  return absl::DataLossError("its index leads to nothing but indexes");
}

absl::Status WriteNew(const std::string& path, std::string_view bytes) {
  ASSIGN_OR_RETURN(const common::UniqueFd file,
                   common::OpenRegular(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
  return common::WriteAll(file.get(), bytes);
}

absl::StatusOr<std::string> LayerTypeOf(const std::string& path) {
  ASSIGN_OR_RETURN(const common::UniqueFd file, common::OpenRegular(path, O_RDONLY));
  ASSIGN_OR_RETURN(const std::string head, common::ReadAt(file.get(), 0, kMagicBytes, path));
  return std::string(head.starts_with(kGzipMagic) ? kGzipLayer : kTarLayer);
}

class LayoutCopy {
 public:
  LayoutCopy(const LayoutSource& source, const std::string& target,
             const std::function<bool(uint64_t)>& took)
      : source_(source), blobs_(target + "/blobs/sha256"), took_(took) {}

  absl::Status Take(const ImageBlob& blob) {
    const std::string to = StrCat(blobs_, "/", blob.hex);
    if (common::Exists(to)) return absl::OkStatus();  // two layers may be identical
    const std::string from = BlobPath(source_, blob.hex);
    if (source_.is_ours && rename(from.c_str(), to.c_str()) != 0)
      return common::ErrnoStatus(StrCat("cannot move ", from));
    ASSIGN_OR_RETURN(const common::UniqueFd in, OpenAsAccount(source_.is_ours ? to : from));
    if (source_.is_ours) return Pass(in.get(), -1, blob, to);
    ASSIGN_OR_RETURN(const common::UniqueFd out,
                     common::OpenRegular(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
    return Pass(in.get(), out.get(), blob, from);
  }

  // Only verifies; copies nothing.
  absl::Status Check(const ImageBlob& blob) {
    const std::string from = BlobPath(source_, blob.hex);
    ASSIGN_OR_RETURN(const common::UniqueFd in, OpenAsAccount(from));
    return Pass(in.get(), -1, blob, from);
  }

 private:
  absl::StatusOr<common::UniqueFd> OpenAsAccount(const std::string& path) const {
    const ActAs acting(source_.account);
    return common::OpenRegular(path, O_RDONLY);
  }

  // Hashes the bytes that it writes: the file may change meanwhile.
  absl::Status Pass(int in, int out, const ImageBlob& blob, const std::string& name) {
    common::Sha256 hash;
    std::string chunk(kChunkBytes, '\0');
    for (uint64_t left = blob.size; left > 0;) {
      const ssize_t count = read(in, chunk.data(), std::min<uint64_t>(chunk.size(), left));
      if (count < 0) return common::ErrnoStatus(StrCat("cannot read ", name));
      if (count == 0) return Differs(name, "is shorter than its manifest says");
      const std::string_view bytes(chunk.data(), static_cast<size_t>(count));
      hash.Update(bytes);
      if (out >= 0) RETURN_IF_ERROR(common::WriteAll(out, bytes));
      left -= bytes.size();
      bytes_ += bytes.size();
      if (!took_(bytes_)) return absl::CancelledError("the attempt was stopped");
    }
    if (hash.FinishHex() != blob.hex) return Differs(name, "is not what its name promises");
    return absl::OkStatus();
  }

  const LayoutSource& source_;
  const std::string blobs_;
  const std::function<bool(uint64_t)>& took_;
  uint64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<TakenLayout> ReadLayout(const LayoutSource& source, const std::string& wanted) {
  const ActAs acting(source.account);
  ASSIGN_OR_RETURN(const std::string json, ReadManifest(source));
  TakenLayout layout;
  layout.manifest_hex = common::Sha256Hex(json);
  if (!wanted.empty() && layout.manifest_hex != wanted) {
    return absl::DataLossError(
        StrCat("what was fetched is sha256:", layout.manifest_hex, ", not sha256:", wanted));
  }
  ASSIGN_OR_RETURN(layout.manifest, ParseManifest(json));
  ASSIGN_OR_RETURN(const std::string config, ReadBlob(source, layout.manifest.config));
  ASSIGN_OR_RETURN(layout.config, ParseImageConfig(config));
  return layout;
}

absl::Status CheckLayers(const LayoutSource& source, const TakenLayout& layout,
                         const std::function<bool(uint64_t)>& took) {
  LayoutCopy copy(source, "", took);
  for (const ImageBlob& layer : layout.manifest.layers) RETURN_IF_ERROR(copy.Check(layer));
  return absl::OkStatus();
}

absl::Status TakeLayout(const LayoutSource& source, const TakenLayout& layout,
                        const std::string& target, const std::function<bool(uint64_t)>& took) {
  RETURN_IF_ERROR(common::MakeDirectories(target + "/blobs/sha256"));
  LayoutCopy copy(source, target, took);
  RETURN_IF_ERROR(copy.Take(layout.manifest.config));
  for (const ImageBlob& layer : layout.manifest.layers) RETURN_IF_ERROR(copy.Take(layer));
  ImageManifest taken = layout.manifest;
  for (ImageBlob& layer : taken.layers) {
    // Podman stores layers uncompressed, but still gives the media type with which they were pulled.
    ASSIGN_OR_RETURN(layer.media_type, LayerTypeOf(StrCat(target, "/blobs/sha256/", layer.hex)));
  }
  const std::string manifest = ManifestJson(taken);
  RETURN_IF_ERROR(
      WriteNew(StrCat(target, "/blobs/sha256/", common::Sha256Hex(manifest)), manifest));
  RETURN_IF_ERROR(WriteNew(target + "/oci-layout", "{\"imageLayoutVersion\": \"1.0.0\"}"));
  return WriteNew(target + "/index.json", IndexJson(manifest));
}

}  // namespace muster::worker
