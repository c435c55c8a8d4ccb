// The pickle in a file of torch.save, as values: what Python wrote, without anything of Python. Source: pickletools.py of Python
// 3.11 for the operations of protocol 2, torch/_weights_only_unpickler.py and torch/_utils.py of torch 2.13 for what tensors are
// rebuilt from. Names of classes and functions are compared with a closed list and never looked up; what is not in it becomes an
// opaque value that keeps its name. Pure: bytes in, values out. Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    list,
    dict,
    tensor,
    storage,
    global,
    opaque
  };

  Kind kind = Kind::none;
  // Of a storage and a tensor: the name of the dtype in safetensors, "F32"; empty: not known.
  std::string_view dtype = {};
  // And booleans; of a real its bits; of a storage its elements, or its bytes without a dtype; of a tensor its place in `tensors`.
  int64_t integer = 0;
  // And bytes; the name of a global, "torch.FloatStorage"; of an opaque value its
  // class; of a storage its key.
  std::string text = {};
  std::vector<uint32_t> items = {};  // of lists, tuples and sets; of a dict key, value, key, value
};

struct PickledTensor {
  uint32_t storage = 0;  // a value
  int64_t offset = 0;    // in elements
  std::vector<int64_t> shape = {}, strides = {};
};

// Values refer to each other by their index. They may form a cycle.
struct Pickle {
  std::vector<PickleValue> values;
  std::vector<PickledTensor> tensors;
  uint32_t root = 0;

  const PickleValue& at(uint32_t index) const { return values.at(index); }
  // The value of a text key of a dict.
  std::optional<uint32_t> find(const PickleValue& dict, std::string_view key) const;
};

// Of the pickle of one file; a longer one is refused.
inline constexpr uint64_t kPickleBytesMax = 256 << 20;
// Values in it: a hostile pickle takes no more memory than a hundred times its size, and 800 MB.
inline constexpr size_t kPickleValuesMax = 8'000'000;

// Throws FormatError("<where>: <rule>"), for protocols above 2, too.
Pickle parse_torch_pickle(std::string_view bytes, const std::string& where);

}  // namespace muster
