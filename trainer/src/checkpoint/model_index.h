// How the weights of a model are split into files, and the index that records it. No torch, no I/O.
// Source: huggingface_hub split_state_dict_into_shards_factory, transformers' index files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kModelIndexFile[] = "model.safetensors.index.json";
// Of transformers before version 5: files of torch.save.
inline constexpr char kTorchModelFile[] = "pytorch_model.bin";
inline constexpr char kTorchModelIndexFile[] = "pytorch_model.bin.index.json";

// "model-00002-of-00005.safetensors"; index counts from 0.
std::string model_shard_name(size_t index, size_t count);

// Whether model_shard_name can produce this name.
bool is_model_shard_name(const std::string& name);

struct NamedSize {
  std::string name;
  uint64_t bytes = 0;
};

// The names in each shard. In the given order, a shard is closed before a tensor that would take it
// above `most_bytes`; a tensor larger than that gets its own shard, before the open one.
std::vector<std::vector<std::string>> split_into_shards(const std::vector<NamedSize>& tensors,
                                                        uint64_t most_bytes);

// name of a tensor -> name of its file
using WeightMap = std::map<std::string, std::string>;

std::string format_model_index(const WeightMap& weight_map, uint64_t total_size);

// Throws FormatError naming `where` if it is not an index or names a file outside its directory.
WeightMap parse_model_index(const std::string& text, const std::string& where);

}  // namespace muster
