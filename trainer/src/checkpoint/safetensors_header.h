// The header of a safetensors file: the list of tensors and where their bytes lie.
// Source: the format's description in github.com/huggingface/safetensors, README and tensor.rs.
// Pure: bytes in, values out. Hostile input ends in a FormatError, never in a crash. No torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Both readers of the format refuse longer headers.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

struct TensorEntry {
  std::string name;
  std::string dtype;  // as in the file, "F32"
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data, which follows the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;             // in the order of their bytes
  std::map<std::string, std::string> metadata;  // `__metadata__`
};

// Bits of one element of a dtype of the format, or 0 when the format does not have it.
int safetensors_dtype_bits(std::string_view dtype);

// Checks and reads the JSON of a header, `data_bytes` being the number of bytes that follow it.
// Enforced: it starts with `{`; no key twice; known dtypes; offsets that cover the data from 0 to
// its end without a hole or an overlap; sizes that equal shape times element size, in numbers that
// do not overflow. Throws FormatError("<where>: <rule>").
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& where);

// The first bytes of a file: length, JSON, padding with spaces to a multiple of 8. Fills in begin
// and end of the tensors, which are laid out in the order given.
std::string format_safetensors_header(std::vector<TensorEntry>& tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace muster
