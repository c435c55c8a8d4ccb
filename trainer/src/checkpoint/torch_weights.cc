#include "checkpoint/torch_weights.h"

#include <tuple>

#include "checkpoint/torch_file.h"

namespace muster {

TorchWeights weights_of(TorchFile& file) {
  using Kind = PickleValue::Kind;
  const PickleValue& state = file.state_dict();
  const Pickle& values = file.values();
  TorchWeights weights;
  std::map<std::tuple<uint64_t, std::string, std::vector<int64_t>, std::vector<int64_t>>,
           std::string>
      seen;
  for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
    const PickleValue &key = values.at(state.items[i]), &value = values.at(state.items[i + 1]);
    if (key.kind != Kind::text || value.kind != Kind::tensor) continue;
    const TorchTensor tensor = file.place_of(value, key.text);
    weights.aliases.erase(key.text);
    weights.tensors[key.text] = tensor;
    if (tensor.bytes == 0) continue;
    const auto [first, is_new] =
        seen.try_emplace({tensor.begin, tensor.dtype, tensor.shape, tensor.strides}, key.text);
    if (!is_new && first->second != key.text) weights.aliases[key.text] = first->second;
  }
  return weights;
}

TorchWeights read_torch_weights(const ByteSource& file, const std::string& where) {
  TorchFile opened(file, where);
  return weights_of(opened);
}

}  // namespace muster
