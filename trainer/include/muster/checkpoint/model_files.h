// Model weights in Hugging Face's file layout, for exchange with other programs.
//
// One file model.safetensors, or model-00001-of-0000N.safetensors … with
// model.safetensors.index.json ({"metadata": {"total_size"}, "weight_map": {name: file}}).
// Source: Accelerate 1.15 Accelerator.save_model and huggingface_hub
// split_torch_state_dict_into_shards. Without tied weights, the files are byte-identical to the
// ones that Accelerate writes. Tied weights are written once, under the name that comes first in
// the model; `__metadata__` of that file maps each other name to it, as
// safetensors.torch.save_model does. Nothing here is collective: with several ranks, one saves and
// each may load. Any thread, but the module must not be trained at the same time.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

// Parses a size in bytes: "10GB", "500 MB", "1.5GB", "100KB", "2TB" (powers of 1000, as Hugging
// Face reads them), "5GiB", "64MiB", "4KiB", "1TiB" (powers of 1024), "123B" or "123", in upper or
// lower case. Throws std::invalid_argument naming the text.
uint64_t parse_size(std::string_view text);

struct SaveModelOptions {
  // The most tensor bytes per file (parse_size); a single larger tensor gets its own file.
  std::string max_shard_size = "10GB";
};

struct SavedModel {
  std::vector<std::string> files;  // names in the directory: the shards, then the index, if any
  uint64_t total_size = 0;         // bytes of all tensors
};

// Writes the module's parameters and buffers into `directory`, which is created if missing. All
// files are durable under temporary names before the first is renamed into place; then files of an
// earlier save that are not part of this one (model.safetensors, shards, index) are removed, so
// that no reader sees a mixture of two saves. A single file replaces an earlier one atomically.
// Throws CheckpointError on a disk error, FormatError for a tensor that the format cannot
// represent, std::invalid_argument for a bad size.
SavedModel save_model(const torch::nn::Module& module, const std::string& directory,
                      const SaveModelOptions& options = {});
// The same for named tensors, in the order of their names. Any device; strided layout.
SavedModel save_model(const TensorMap& tensors, const std::string& directory,
                      const SaveModelOptions& options = {});

struct LoadModelOptions {
  // Throw, without loading anything, if a tensor is missing, unexpected or does not fit. False:
  // load what fits and report the rest.
  bool strict = true;
  // Converts tensors whose dtype differs from the model's. False: such tensors do not fit.
  bool convert_dtype = false;
  // Removed from the start of the file's names ("module." of a wrapped model).
  std::string strip_prefix = {};
  // Then maps each name in the file to its name in the model; an empty result skips the tensor
  // without reporting it. Default: the same names.
  std::function<std::string(const std::string&)> rename = {};
};

// The result of load_model; names are the model's (after strip_prefix and rename).
struct LoadReport {
  struct Mismatch {
    std::string name;
    std::string file_dtype, model_dtype;  // as safetensors writes them, "F32"
    std::vector<int64_t> file_shape, model_shape;
  };
  std::vector<std::string> loaded;   // sorted, like the others
  std::vector<std::string> missing;  // in the model, not in the files, and not tied to a loaded one
  std::vector<std::string> unexpected;  // in the files, not in the model
  std::vector<Mismatch> mismatched;     // different shape, or different dtype without convert_dtype

  bool complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  // For people: one line per category, each with up to 20 names; "all N tensors loaded" if
  // complete.
  std::string text() const;
};

// Reads weights into the module's parameters and buffers, in place and one tensor at a time; CPU
// tensors are read directly into their memory. `path` is a safetensors file, a file of Python's
// torch.save (docs/formats-checkpoint.md tells what of it is read), an index file, or a directory
// that holds model.safetensors, model.safetensors.index.json, pytorch_model.bin,
// pytorch_model.bin.index.json, or a single other *.safetensors or *.safetensors.index.json. An
// index can only name files in its own directory.
// Throws CheckpointError with the full report if strict and something does not fit (the module is
// then unchanged), CheckpointError if nothing can be read there, FormatError for damaged files.
LoadReport load_model(torch::nn::Module& module, const std::string& path,
                      const LoadModelOptions& options = {});

// Reads the same files as named tensors on the CPU, with the names in the files, including aliases
// of tied weights.
TensorMap load_model_tensors(const std::string& path);

}  // namespace muster
