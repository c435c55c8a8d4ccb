// The bytes of a file as tensors, without reading them: each storage is mapped alone, privately, until its last
// tensor ends.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/files.h"
#include "exported/exported_program.h"

namespace muster {

// Of one file, while its tensors are made. Weights of one storage share its memory, and equal ones are one tensor.
class MappedWeights {
 public:
  MappedWeights(const FileDescriptor& fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  // On the CPU, without requires_grad. The place lies within the file. Throws CheckpointError if the system refuses.
  at::Tensor tensor(const ExportedWeight& weight, const std::string& name);

 private:
  c10::Storage storage(uint64_t begin, uint64_t bytes);

  const FileDescriptor& fd_;
  std::string path_;
  std::map<std::pair<uint64_t, uint64_t>, c10::Storage> storages_;
};

}  // namespace muster
