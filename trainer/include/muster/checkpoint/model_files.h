// Weights in files for others to read, and weights that others wrote: the layout of Hugging Face.
//
// One file model.safetensors, or model-00001-of-0000N.safetensors … with
// model.safetensors.index.json ({"metadata": {"total_size"}, "weight_map": {name: file}}).
// Source: Accelerate 1.15 Accelerator.save_model and huggingface_hub
// split_torch_state_dict_into_shards. Files without tied weights are equal byte for byte to the
// ones that Accelerate writes. Tied weights are written once, under the name that comes first in
// the model; `__metadata__` of that file maps each other name to it, as
// safetensors.torch.save_model does. Nothing here is collective: with several ranks, one saves and
// each may load. Any thread, but the module must not be trained meanwhile.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

// Bytes from text: "10GB", "500 MB", "1.5GB", "100KB", "2TB" (powers of 1000, as Hugging Face reads
// them), "5GiB", "64MiB", "4KiB", "1TiB" (powers of 1024), "123B" or "123". Upper and lower case.
// Throws std::invalid_argument that names the text.
uint64_t parse_size(std::string_view text);

struct SaveModelOptions {
  // A file is closed before it would hold more tensor bytes than this (parse_size); a single larger
  // tensor gets a file of its own.
  std::string max_shard_size = "10GB";
};

struct SavedModel {
  std::vector<std::string> files;  // names in the directory: the shards, then the index if any
  uint64_t total_size = 0;         // bytes of all tensors
};

// Writes the module's parameters and buffers into `directory`, which is made when missing. Every
// file is durable under a temporary name before the first one takes its place; then the files of an
// earlier save that are not part of this one (model.safetensors, shards, index) are removed, so
// that no reader ever meets a mixture of two saves. A single file replaces an earlier one in one
// step. Throws CheckpointError when the disk refuses, FormatError for a tensor that the format
// cannot say, std::invalid_argument for a bad size.
SavedModel save_model(const torch::nn::Module& module, const std::string& directory,
                      const SaveModelOptions& options = {});
// The same for named tensors, in the order of their names. Tensors of any device, layout strided.
SavedModel save_model(const TensorMap& tensors, const std::string& directory,
                      const SaveModelOptions& options = {});

struct LoadModelOptions {
  // Throw when anything is missing, unexpected or does not fit; nothing is then loaded. False: load
  // what fits and report the rest.
  bool strict = true;
  // A tensor of another dtype than the model's is converted. False: it counts as not fitting.
  bool convert_dtype = false;
  // Taken off the front of the file's names that start with it ("module." of a wrapped model).
  std::string strip_prefix = {};
  // Then gives each name of the file its name in the model; an empty result leaves the tensor out
  // without a word in the report. Default: the names are the same.
  std::function<std::string(const std::string&)> rename = {};
};

// What load_model found; names are the model's (after strip_prefix and rename).
struct LoadReport {
  struct Mismatch {
    std::string name;
    std::string file_dtype, model_dtype;  // as safetensors writes them, "F32"
    std::vector<int64_t> file_shape, model_shape;
  };
  std::vector<std::string> loaded;   // sorted, like the others
  std::vector<std::string> missing;  // in the model, not in the files, and not tied to a loaded one
  std::vector<std::string> unexpected;  // in the files, not in the model
  std::vector<Mismatch> mismatched;     // another shape, or another dtype without convert_dtype

  bool complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  // For people: a line per kind of finding, each with up to 20 names; "all N tensors loaded" when
  // complete.
  std::string text() const;
};

// Reads weights into the module's parameters and buffers, in place and one tensor at a time: a CPU
// tensor is read straight into its memory. `path` is a safetensors file, an index file, or a
// directory that holds model.safetensors, model.safetensors.index.json, or a single other
// *.safetensors or *.safetensors.index.json. An index can only name files of its own directory.
// Throws CheckpointError with the whole report when strict and something does not fit (the module
// is then unchanged), CheckpointError when nothing can be read there, FormatError for damaged
// files.
LoadReport load_model(torch::nn::Module& module, const std::string& path,
                      const LoadModelOptions& options = {});

// The same files as named tensors on the CPU, names as in the files; aliases of tied weights too.
TensorMap load_model_tensors(const std::string& path);

}  // namespace muster
