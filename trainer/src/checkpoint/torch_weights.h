// The tensors of the state_dict in a file of torch.save. Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <map>
#include <string>

#include "checkpoint/torch_file.h"

namespace muster {

struct TorchWeights {
  std::map<std::string, TorchTensor> tensors;
  // Further names of the same memory -> the first of them.
  std::map<std::string, std::string> aliases;
};

// What else the file holds is not looked at. Throws FormatError as TorchFile does.
TorchWeights weights_of(TorchFile& file);
TorchWeights read_torch_weights(const ByteSource& file, const std::string& where);

}  // namespace muster
