// The files of an image's layout: copied from a directory that others wrote into one of ours, and each
// verified on the way. A thread that may block.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/confinement/rank_account.h"
#include "worker/containers/image_manifest.h"

namespace muster::worker {

struct LayoutSource {
  std::string directory;
  // An OCI layout has its blobs in blobs/sha256/; the "dir:" format of skopeo and podman has them beside
  // its manifest.json.
  bool is_oci = true;
  bool is_ours = false;  // our own tools wrote it: its files are moved instead of copied
  RankAccount account;   // its rights are used to read it
};

struct TakenLayout {
  std::string manifest_hex;  // SHA-256 of the manifest as it was there: the image's digest
  ImageManifest manifest;
  ImageConfig config;
};

// Reads only the manifest, to identify the image before anything is copied. `wanted`: its digest;
// empty: any.
absl::StatusOr<TakenLayout> ReadLayout(const LayoutSource& source, const std::string& wanted);

// OK if the account can read all its layers, and they match the manifest. `took` as below.
absl::Status CheckLayers(const LayoutSource& source, const TakenLayout& layout,
                         const std::function<bool(uint64_t)>& took);

// Makes `target`, an OCI layout with the single image "image", from `layout`. `took` gets the bytes so
// far; returning false stops it with CANCELLED. DATA_LOSS names a file that differs from its digest.
absl::Status TakeLayout(const LayoutSource& source, const TakenLayout& layout,
                        const std::string& target, const std::function<bool(uint64_t)>& took);

}  // namespace muster::worker
