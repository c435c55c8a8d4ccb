// A TensorBoard event file written by a rank. The bytes are used as a file, and as the message in
// one valid record.
#include <cstring>

#include "common/hash/crc32c.h"
#include "common/tensorboard/event_file.h"
#include "fuzz/harness.h"

namespace muster::common {
namespace {

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string Framed(std::string_view message) {
  const std::string length = Bytes(uint64_t{message.size()});
  std::string frame = length + Bytes(MaskedCrc32c(length));
  frame.append(message);
  return frame + Bytes(MaskedCrc32c(message));
}

void ReadAll(std::string_view file) {
  while (true) {
    const absl::StatusOr<std::optional<FramedRecord>> record = ReadEventRecord(file);
    if (!record.ok() || !record->has_value()) return;
    FUZZ_EXPECT((*record)->bytes > kFrameHeaderBytes && (*record)->bytes <= file.size());
    for (const Scalar& scalar : (*record)->event.scalars) FUZZ_EXPECT(!scalar.tag.empty());
    file.remove_prefix((*record)->bytes);
  }
}

}  // namespace
}  // namespace muster::common

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view bytes = testing::Text(data, size);
  common::ReadAll(bytes);
  const std::string framed = common::Framed(bytes);
  const auto record = common::ReadEventRecord(framed);
  FUZZ_EXPECT(record.ok() && record->has_value() && (*record)->bytes == framed.size());
  common::ReadAll(framed + framed);
  return 0;
}
