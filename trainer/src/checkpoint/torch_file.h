// A file of torch.save: its values, and where its tensors lie. Source: torch/serialization.py of torch 2.13 (the zip format, since
// torch 1.6). Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/stored_zip.h"
#include "checkpoint/torch_pickle.h"

namespace muster {

struct TorchTensor {
  std::string dtype = {};  // as safetensors writes it, "F32"
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};  // in elements, none negative
  uint64_t begin = 0;                 // of its first element in the file
  uint64_t bytes = 0;  // from there to the end of its last element; at least its elements' bytes
};

class TorchFile {
 public:
  // Both are referred to. Throws FormatError("<where>…") with the Python line that converts files that are not read: of before
  // torch 1.6, of other pickle protocols, TorchScript.
  TorchFile(const ByteSource& file, const std::string& where);

  const Pickle& values() const { return pickle_; }
  const PickleValue& root() const { return pickle_.at(pickle_.root); }

  // The dict of tensors that is the file, or that it has: under "state_dict" (Lightning), "model_state_dict" or "model", or as
  // the only one. Throws FormatError naming the keys that there are.
  const PickleValue& state_dict();

  // `name`: for messages. Throws FormatError unless the tensor lies within its storage, and the storage within its record.
  TorchTensor place_of(const PickleValue& tensor, const std::string& name) const;

 private:
  std::string prefix_of_records() const;
  void require_stored(const std::string& name, const ZipRecord& record) const;
  void check_byte_order() const;
  bool has_tensors(uint32_t index);

  const ByteSource& file_;
  const std::string& where_;
  ZipRecords records_;
  std::string prefix_;
  Pickle pickle_;
  std::unordered_map<uint32_t, bool> has_tensors_;
};

// Whether the first bytes of a file may be those of torch.save, in this or in its older format.
bool is_torch_file(const ByteSource& file);

}  // namespace muster
