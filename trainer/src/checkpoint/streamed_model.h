// save_model for a model that nobody holds whole: its tensors come one by one.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "muster/checkpoint/model_files.h"

namespace muster {

// Names of the module's parameters and buffers in the order of Python's state_dict, as save_model
// goes through them: a module's parameters, its buffers, then its children. Tied ones under each of
// their names. Touches no values.
std::vector<std::string> state_names(const torch::nn::Module& module);

// The names in the order in which save_model_streamed fetches them: ranks that take part in
// gathering a tensor and write nothing go through this list. Throws as save_model_streamed.
std::vector<std::string> streaming_order(const std::vector<TensorOutline>& tensors,
                                         const SaveModelOptions& options);

// Writes the files that save_model writes for the same tensors, byte for byte. `tensors`: every
// tensor once, in the order of the model. `aliases`: further names of tied weights -> the name in
// `tensors`. fetch(name) returns the whole tensor on the CPU and is called once per tensor, in the
// order of streaming_order; a tensor is dropped before the next one is fetched. When the disk
// refuses or a tensor does not fit its description the rest is fetched all the same, so that ranks
// which take part stay in step, and then the error is thrown: nothing of an earlier save has
// changed. An exception of fetch passes through at once.
// Throws as save_model, and std::invalid_argument for names that are there twice or aliases of
// unknown ones.
SavedModel save_model_streamed(const std::vector<TensorOutline>& tensors, const StringMap& aliases,
                               const std::string& directory, const SaveModelOptions& options,
                               const FetchTensor& fetch);

}  // namespace muster
