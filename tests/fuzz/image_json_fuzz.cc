// The JSON of images and of devices in containers, and images' names, by whichever reader the first
// byte names.
#include "common/hash/sha256.h"
#include "common/job/image_name.h"
#include "fuzz/harness.h"
#include "worker/containers/cdi.h"
#include "worker/containers/image_manifest.h"

namespace {

using namespace muster::worker;

void CheckBlob(const ImageBlob& blob) { FUZZ_EXPECT(muster::common::IsSha256Hex(blob.hex)); }

void CheckManifest(std::string_view text) {
  if (const auto chosen = ChooseManifest(text); chosen.ok()) CheckBlob(*chosen);
  const auto manifest = ParseManifest(text);
  if (!manifest.ok()) return;
  CheckBlob(manifest->config);
  uint64_t bytes = 0;
  for (const ImageBlob& layer : manifest->layers) {
    CheckBlob(layer);
    bytes += layer.size;
  }
  FUZZ_EXPECT(bytes <= kImageBytesMax && manifest->layers.size() <= kImageLayersMax);
  // What we write of it, we read as the same.
  const auto again = ParseManifest(ManifestJson(*manifest));
  FUZZ_EXPECT(again.ok() && again->layers.size() == manifest->layers.size());
}

void CheckConfig(std::string_view text) {
  const auto config = ParseImageConfig(text);
  if (!config.ok()) return;
  for (const std::string& variable : config->env) {
    const size_t equals = variable.find('=');
    FUZZ_EXPECT(equals > 0 && equals != std::string::npos &&
                variable.find('\0') == std::string::npos);
  }
}

void CheckEdits(const CdiEdits& edits) {
  for (const BundleMount& mount : edits.mounts) {
    FUZZ_EXPECT(mount.source.starts_with('/') && mount.source.find("/../") == std::string::npos);
    FUZZ_EXPECT(!mount.is_device || mount.source.starts_with("/dev/"));
  }
  for (const BundleHook& hook : edits.hooks) FUZZ_EXPECT(hook.path.starts_with('/'));
}

void CheckDevices(std::string_view text) {
  const auto spec = ParseCdi(text);
  if (!spec.ok()) return;
  CheckEdits(spec->common);
  for (const auto& [name, edits] : spec->devices) CheckEdits(edits);
}

void CheckName(std::string_view text) {
  const auto name = muster::job::ParseImageName(text);
  if (!name.ok()) return;
  FUZZ_EXPECT(!name->text.empty() && name->text.front() != '-');
  FUZZ_EXPECT(name->kind != muster::job::ImageName::Kind::kRegistry ||
              (muster::common::IsSha256Hex(name->digest) && !name->repository.empty()));
  FUZZ_EXPECT(name->kind != muster::job::ImageName::Kind::kLayout ||
              name->directory.starts_with('/'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'm':
      CheckManifest(text);
      break;
    case 'c':
      CheckConfig(text);
      break;
    case 'd':
      CheckDevices(text);
      break;
    default:
      CheckName(text);
  }
  return 0;
}
