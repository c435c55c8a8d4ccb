// Writes the pickle of a file of torch.save: what torch.load(weights_only=True) reads, and nothing else. Source: pickletools.py of
// Python 3.11 for protocol 2, torch/_utils.py of torch 2.13 for how tensors are rebuilt. Pure. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class TorchPickleWriter {
 public:
  TorchPickleWriter();

  void none();
  void boolean(bool value);
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view value);

  // Between begin and end follow the items; of a dict key, value, key, value.
  void begin_dict();
  void begin_ordered_dict();  // collections.OrderedDict, as a state_dict is
  void begin_list();
  void begin_tuple();
  void end_dict();
  void end_list();
  void end_tuple();

  struct Tensor {
    std::string dtype;  // as safetensors writes it
    std::string key;    // of its storage: the record data/<key>
    uint64_t storage_bytes = 0;
    int64_t offset = 0;  // in elements
    std::vector<int64_t> shape, strides;
  };
  // Throws FormatError for a dtype that torch.save has no name for.
  void tensor(const Tensor& tensor);

  // Call it once, at the end.
  std::string finish();

 private:
  void global(std::string_view module, std::string_view name);
  void little_endian(uint64_t value, int bytes);
  void integers(const std::vector<int64_t>& values);

  std::string bytes_;
};

}  // namespace muster
