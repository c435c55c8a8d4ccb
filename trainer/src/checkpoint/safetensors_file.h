// Writing a safetensors file under its final name, for an owner that publishes the whole directory.
#pragma once

#include "muster/safetensors.h"

namespace muster {

// As save_safetensors, but straight into `path`: fsynced, not renamed.
SavedFile write_safetensors(const std::string& path, const TensorMap& tensors,
                            const StringMap& metadata);

}  // namespace muster
