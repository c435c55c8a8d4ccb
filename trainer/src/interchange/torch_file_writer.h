// Writes one file of torch.save: values in order, tensors among them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "checkpoint/torch_pickle_writer.h"

namespace muster {

class TorchFileWriter {
 public:
  // The tensors that the file will hold: those that share memory share it there, too.
  void expect(const at::Tensor& tensor);

  TorchPickleWriter& values() { return values_; }
  // One of the expected. Throws FormatError, beginning with the name, for one that the format cannot represent.
  void tensor(const std::string& name, const at::Tensor& tensor);

  // Writes values and storages; durable under its name when it returns. Throws CheckpointError.
  void finish(const std::string& path);

 private:
  using StorageId = const c10::StorageImpl*;

  bool is_written_whole(StorageId storage);
  std::string add_storage(const at::Tensor& memory);

  TorchPickleWriter values_;
  std::map<StorageId, std::vector<at::Tensor>> expected_;
  std::map<StorageId, bool> is_whole_;
  std::map<StorageId, std::string> whole_;    // keys of storages that are written whole
  std::map<std::string, std::string> apart_;  // keys of tensors that are written apart, by identity
  std::vector<at::Tensor> held_;
  std::vector<at::Tensor> storages_;  // by key; uint8, on the CPU
};

}  // namespace muster
