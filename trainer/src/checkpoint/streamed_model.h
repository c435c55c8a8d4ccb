// save_model for a model that no rank holds in full: its tensors are fetched one at a time.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "muster/checkpoint/model_files.h"

namespace muster {

// Names of the module's parameters and buffers in the order of Python's state_dict, which is
// save_model's: a module's parameters, its buffers, then its children. Tied ones under each of
// their names. Reads no values.
std::vector<std::string> state_names(const torch::nn::Module& module);

// The names in the order in which save_model_streamed fetches them, for ranks that take part in
// gathering but write nothing. Throws as save_model_streamed does.
std::vector<std::string> streaming_order(const std::vector<TensorOutline>& tensors,
                                         const SaveModelOptions& options);

// Writes byte-identical files to save_model's for the same tensors. `tensors`: every tensor once,
// in model order. `aliases`: further names of tied weights -> the name in `tensors`. fetch(name)
// returns the unsharded tensor on the CPU and is called once per tensor, in the order of
// streaming_order; each tensor is released before the next is fetched. On a disk error, or if a
// tensor does not match its outline, the rest is still fetched, so that participating ranks stay in
// step, and then the error is thrown; an earlier save is unchanged. An exception of fetch
// propagates at once. Throws as save_model does, and std::invalid_argument for duplicate names or
// aliases of unknown ones.
SavedModel save_model_streamed(const std::vector<TensorOutline>& tensors, const StringMap& aliases,
                               const std::string& directory, const SaveModelOptions& options,
                               const FetchTensor& fetch);

}  // namespace muster
