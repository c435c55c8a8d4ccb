// The names of dtypes in files of torch.save. Source: torch/storage.py of torch 2.13. No torch.
#pragma once

#include <string_view>

namespace muster {

struct TorchDtype {
  std::string_view python;   // "torch.<this>"
  std::string_view storage;  // "torch.<this>Storage"; empty: it has none
  std::string_view name;     // as safetensors writes it
};

inline constexpr TorchDtype kTorchDtypes[] = {
    {"float32", "Float", "F32"},
    {"float64", "Double", "F64"},
    {"float16", "Half", "F16"},
    {"bfloat16", "BFloat16", "BF16"},
    {"int64", "Long", "I64"},
    {"int32", "Int", "I32"},
    {"int16", "Short", "I16"},
    {"int8", "Char", "I8"},
    {"uint8", "Byte", "U8"},
    {"bool", "Bool", "BOOL"},
    {"complex64", "ComplexFloat", "C64"},
    {"uint16", "", "U16"},
    {"uint32", "", "U32"},
    {"uint64", "", "U64"},
    {"float8_e4m3fn", "", "F8_E4M3"},
    {"float8_e5m2", "", "F8_E5M2"},
    {"float8_e8m0fnu", "", "F8_E8M0"},
    {"float8_e4m3fnuz", "", "F8_E4M3FNUZ"},
    {"float8_e5m2fnuz", "", "F8_E5M2FNUZ"},
};

// By the name of safetensors; null if it has none.
inline const TorchDtype* find_torch_dtype(std::string_view name) {
  for (const TorchDtype& each : kTorchDtypes) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace muster
