// The tensors of a state_dict in a file of torch.save: where each lies in the file. Source: torch/serialization.py of torch 2.13
// (the zip format, since torch 1.6). Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/stored_zip.h"

namespace muster {

struct TorchTensor {
  std::string dtype = {};  // as safetensors writes it, "F32"
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};  // in elements, none negative
  uint64_t begin = 0;                 // of its first element in the file
  uint64_t bytes = 0;  // from there to the end of its last element; at least its elements' bytes
};

struct TorchWeights {
  std::map<std::string, TorchTensor> tensors;
  // Further names of the same memory -> the first of them.
  std::map<std::string, std::string> aliases;
};

// A file is a state_dict, or a dict that has one: under "state_dict" (Lightning), "model_state_dict" or "model", or as the only
// dict of tensors in it. What else it holds is not looked at. Throws FormatError("<where>…") with the Python line that converts
// files that are not read: of before torch 1.6, of other pickle protocols, whole modules, TorchScript.
TorchWeights read_torch_weights(const ByteSource& file, const std::string& where);

// Whether the first bytes of a file may be those of torch.save, in this or in its older format.
bool is_torch_file(const ByteSource& file);

}  // namespace muster
