// The tensors of an open checkpoint as a TensorSource, assembled from the pieces in its files.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/tensor_source.h"
#include "muster/checkpoint/safetensors.h"

namespace muster {

// The files of one checkpoint, opened on first use.
class CheckpointFiles {
 public:
  explicit CheckpointFiles(std::string path) : path_(std::move(path)) {}
  // Valid until the next call.
  const SafetensorsReader& open(const std::string& name);

 private:
  std::string path_;
  std::map<std::string, SafetensorsReader> files_;
};

// The manifest's tensors whose names begin with `prefix`, named by what follows it. Read errors
// name the file, the tensor and its elements.
class CheckpointTensors : public TensorSource {
 public:
  CheckpointTensors(std::string path, std::shared_ptr<const Manifest> manifest,
                    std::shared_ptr<CheckpointFiles> files, std::string prefix);
  std::vector<std::string> names() const override;
  std::optional<TensorDescription> find(const std::string& name) const override;
  at::Tensor read(const std::string& name) const override;
  void read_into(const std::string& name, const at::Tensor& target) const override;
  void read_range(const std::string& name, int64_t begin, const at::Tensor& target) const override;

 private:
  const ManifestTensor& description_of(const std::string& name) const;
  void fill(const std::string& name, const ManifestTensor& tensor, int64_t begin,
            const at::Tensor& target) const;
  void fill_from(const TensorPiece& piece, const ManifestTensor& tensor, int64_t begin,
                 const at::Tensor& target) const;

  std::string path_;
  std::shared_ptr<const Manifest> manifest_;
  std::shared_ptr<CheckpointFiles> files_;
  std::string prefix_;
};

}  // namespace muster
