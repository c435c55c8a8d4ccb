// See model_index.h.
#include "checkpoint/model_index.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/checkpoint_directory.h"
#include "muster/base/errors.h"

namespace muster {

using Json = nlohmann::json;

std::string model_shard_name(size_t index, size_t count) {
  char text[64];
  std::snprintf(text, sizeof(text), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text;
}

bool is_model_shard_name(const std::string& name) {
  size_t index = 0, count = 0;
  if (std::sscanf(name.c_str(), "model-%5zu-of-%5zu.safetensors", &index, &count) != 2) {
    return false;
  }
  return index > 0 && name == model_shard_name(index - 1, count);
}

std::vector<std::vector<std::string>> split_into_shards(const std::vector<NamedSize>& tensors,
                                                        uint64_t most_bytes) {
  std::vector<std::vector<std::string>> shards;
  std::vector<std::string> open;
  uint64_t open_bytes = 0;
  for (const NamedSize& tensor : tensors) {
    if (tensor.bytes > most_bytes) {
      shards.push_back({tensor.name});
      continue;
    }
    if (open_bytes + tensor.bytes > most_bytes) {
      shards.push_back(std::exchange(open, {}));
      open_bytes = 0;
    }
    open.push_back(tensor.name);
    open_bytes += tensor.bytes;
  }
  if (!open.empty()) shards.push_back(std::move(open));
  return shards;
}

std::string format_model_index(const WeightMap& weight_map, uint64_t total_size) {
  const Json json = {{"metadata", {{"total_size", total_size}}}, {"weight_map", weight_map}};
  return json.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
}

WeightMap parse_model_index(const std::string& text, const std::string& where) {
  WeightMap weight_map;
  try {
    const Json json = Json::parse(text);
    weight_map = json.at("weight_map").get<WeightMap>();
  } catch (const Json::exception& error) {
    throw FormatError(where + ": not an index of weights: " + error.what());
  }
  for (const auto& [name, file] : weight_map) require_plain_name(file, where);
  return weight_map;
}

}  // namespace muster
