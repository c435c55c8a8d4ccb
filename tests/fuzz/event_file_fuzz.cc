// A TensorBoard event file written by a rank. The bytes are used as a file, and as the message in
// one valid record.
#include <cstring>

#include "common/crc32c.h"
#include "fuzz/harness.h"
#include "worker/event_file.h"

namespace muster::worker {
namespace {

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string Framed(std::string_view message) {
  const std::string length = Bytes(uint64_t{message.size()});
  std::string frame = length + Bytes(common::MaskedCrc32c(length));
  frame.append(message);
  return frame + Bytes(common::MaskedCrc32c(message));
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
}  // namespace muster::worker

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view bytes = testing::Text(data, size);
  worker::ReadAll(bytes);
  const std::string framed = worker::Framed(bytes);
  const auto record = worker::ReadEventRecord(framed);
  FUZZ_EXPECT(record.ok() && record->has_value() && (*record)->bytes == framed.size());
  worker::ReadAll(framed + framed);
  return 0;
}
