// The header of a safetensors file: the list of tensors and the location of their bytes. Source:
// the format's description in github.com/huggingface/safetensors, README and tensor.rs. Pure: bytes
// in, values out. Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// A key of `__metadata__` in every file of weights. The second name of a tied weight is a key there,
// too: a weight of this name is written as a separate tensor.
inline constexpr const char* kFormatKey = "format";

// The format's reference readers reject longer headers.
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

// Bits per element of a dtype of the format, or 0 for an unknown dtype.
int safetensors_dtype_bits(std::string_view dtype);

// Validates and parses the JSON of a header that is followed by `data_bytes` bytes. Enforces: it
// starts with `{`; no duplicate keys; known dtypes; offsets that cover the data without gap or
// overlap; byte sizes equal to shape times element size, without overflow. Throws
// FormatError("<where>: <rule>").
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& where);

// The first bytes of a file: length and JSON, padded with spaces to a multiple of 8. Fills in begin
// and end of the tensors, which are laid out in the given order.
std::string format_safetensors_header(std::vector<TensorEntry>& tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace muster
