// The header of an untrusted safetensors file. Input: 8 bytes with the amount of data after it,
// then the header. What was read is written back and reads the same.
#include <cstring>

#include "checkpoint/safetensors_header.h"
#include "fuzz/harness.h"
#include "muster/base/errors.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t data_bytes = 0;
  if (size < sizeof data_bytes) return 0;
  std::memcpy(&data_bytes, data, sizeof data_bytes);
  const std::string_view json = muster::testing::Text(data, size).substr(sizeof data_bytes);
  muster::SafetensorsHeader header;
  try {
    header = muster::parse_safetensors_header(json, data_bytes, "fuzz");
  } catch (const muster::FormatError&) {
    return 0;
  }
  uint64_t end = 0;
  for (const muster::TensorEntry& tensor : header.tensors) {
    FUZZ_EXPECT(tensor.begin == end && tensor.end >= tensor.begin);
    end = tensor.end;
  }
  FUZZ_EXPECT(end == data_bytes);
  const std::string written = muster::format_safetensors_header(header.tensors, header.metadata);
  const auto again = muster::parse_safetensors_header(
      std::string_view(written).substr(sizeof(uint64_t)), data_bytes, "fuzz");
  FUZZ_EXPECT(again.tensors.size() == header.tensors.size());
  FUZZ_EXPECT(again.metadata == header.metadata);
  return 0;
}
