// The JSON of an image: its index, manifest and configuration, as defined by OCI's image specification
// 1.0 and Docker's version 2, schema 2. Foreign bytes: their size is bounded, and every field that is
// used is checked. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::worker {

// limit: images: a JSON document of an image; refused
inline constexpr size_t kImageJsonBytesMax = 4 << 20;
// limit: images: layers; refused
inline constexpr size_t kImageLayersMax = 512;
// limit: images: all layers, compressed; refused
inline constexpr uint64_t kImageBytesMax = uint64_t{1} << 40;  // of all layers, compressed

inline constexpr char kTarLayer[] = "application/vnd.oci.image.layer.v1.tar";
inline constexpr char kGzipLayer[] = "application/vnd.oci.image.layer.v1.tar+gzip";

struct ImageBlob {
  std::string hex;  // of its SHA-256
  uint64_t size = 0;
  std::string media_type;  // of layers, as OCI writes it
};

struct ImageManifest {
  ImageBlob config;
  std::vector<ImageBlob> layers;  // the lowest first
};

// The parts of an image's configuration that its ranks get.
struct ImageConfig {
  std::vector<std::string> env;  // "NAME=value"
  std::string workdir;
  std::string architecture;  // "amd64"
};

// This machine's architecture, by the name that images use.
std::string_view ImageArchitecture();

// An index lists manifests, one per architecture; false: it is a manifest, or neither.
bool IsImageIndex(std::string_view json);
// The manifest (or the only index) for this machine. NOT_FOUND names what there is instead.
absl::StatusOr<ImageBlob> ChooseManifest(std::string_view index_json);
absl::StatusOr<ImageManifest> ParseManifest(std::string_view json);
absl::StatusOr<ImageConfig> ParseImageConfig(std::string_view json);

// The manifest in OCI's format, and an index whose only entry is this manifest, named "image".
std::string ManifestJson(const ImageManifest& manifest);
std::string IndexJson(std::string_view manifest_json);

}  // namespace muster::worker
