// The bytes of a file as tensors, without reading them: each storage is mapped alone, privately, until its last tensor ends. The
// file must stay as it is meanwhile.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/source_file.h"

namespace muster {

// Of one file, while its tensors are made. Tensors of one storage share its memory.
class MappedTensors {
 public:
  explicit MappedTensors(const SourceFile& file);  // is referred to

  struct Place {
    std::string dtype;  // as safetensors writes it
    std::vector<int64_t> shape, strides;
    int64_t offset = 0;             // in the storage; all in elements
    uint64_t begin = 0, bytes = 0;  // of the storage in the file
  };
  // On the CPU. The place lies within the file, and the tensor within its storage. Throws FormatError for an unknown dtype,
  // CheckpointError if the system refuses. `name`: for messages.
  at::Tensor tensor(const Place& place, const std::string& name);

 private:
  c10::Storage storage(uint64_t begin, uint64_t bytes);
  // Of bytes that are read rather than mapped: a file whose places lie on each other must not become many times its size.
  void charge(uint64_t bytes);

  const SourceFile& file_;
  uint64_t left_;
  std::map<std::pair<uint64_t, uint64_t>, c10::Storage> storages_;
};

}  // namespace muster
