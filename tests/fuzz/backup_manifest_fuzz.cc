// MANIFEST of a backup from any disk: the bytes as they are, and sealed with the checksum that they
// should have.
#include "common/hash/sha256.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "coordinator/care/manifest.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

void Parse(std::string_view text) {
  const absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return;
  for (const SavedFile& file : manifest->files) {
    FUZZ_EXPECT(common::StaysInside(file.path) && common::StaysInside(file.stored));
  }
  FUZZ_EXPECT(ParseManifest(ManifestText(*manifest)).ok());
}

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = muster::testing::Text(data, size);
  muster::coordinator::Parse(bytes);
  muster::coordinator::Parse(
      muster::common::StrCat(bytes, "sha256 ", muster::common::Sha256Hex(bytes), "\n"));
  return 0;
}
