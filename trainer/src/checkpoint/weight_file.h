// A file of named weights, of whatever format. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

class WeightFile {
 public:
  virtual ~WeightFile() = default;
  // As of SafetensorsReader, whatever the format; dtypes have the names of safetensors.
  virtual std::vector<std::string> names() const = 0;
  virtual StringMap aliases() const = 0;
  virtual bool contains(const std::string& name) const = 0;
  virtual std::string dtype(const std::string& name) const = 0;
  virtual std::vector<int64_t> shape(const std::string& name) const = 0;
  virtual at::Tensor tensor(const std::string& name) const = 0;
  virtual void read_into(const std::string& name, const at::Tensor& target) const = 0;
};

// By the file's first bytes: safetensors, or torch.save. Throws CheckpointError if it cannot be read, FormatError if it is
// neither, or damaged.
std::unique_ptr<WeightFile> open_weight_file(const std::string& path);

}  // namespace muster
