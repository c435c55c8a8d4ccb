// An untrusted file of torch.save. Input: one byte, then 0: the file; else only its pickle. Every tensor lies within the file.
#include <algorithm>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/torch_pickle.h"
#include "checkpoint/torch_weights.h"
#include "fuzz/harness.h"
#include "muster/base/errors.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = muster::testing::Text(data, size).substr(1);
  try {
    if (data[0] != 0) {
      const muster::Pickle pickle = muster::parse_torch_pickle(text, "fuzz");
      for (const muster::PickleValue& value : pickle.values)
        for (const uint32_t item : value.items) FUZZ_EXPECT(item < pickle.values.size());
      return 0;
    }
    const muster::ByteSource file{
        text.size(), [&](uint64_t offset, char* into, size_t bytes) {
          FUZZ_EXPECT(offset <= text.size() && bytes <= text.size() - offset);
          std::copy_n(text.data() + offset, bytes, into);
        }};
    const muster::TorchWeights weights = muster::read_torch_weights(file, "fuzz");
    for (const auto& [name, tensor] : weights.tensors) {
      FUZZ_EXPECT(tensor.begin <= text.size() && tensor.bytes <= text.size() - tensor.begin);
      FUZZ_EXPECT(tensor.shape.size() == tensor.strides.size());
      uint64_t elements = 1;
      for (const int64_t each : tensor.shape) elements *= static_cast<uint64_t>(each);
      FUZZ_EXPECT(elements * static_cast<uint64_t>(muster::safetensors_dtype_bits(tensor.dtype)) <=
                  tensor.bytes * 8);
    }
    for (const auto& [alias, name] : weights.aliases)
      FUZZ_EXPECT(weights.tensors.contains(alias) && weights.tensors.contains(name));
  } catch (const muster::FormatError&) {
    return 0;
  }
  return 0;
}
