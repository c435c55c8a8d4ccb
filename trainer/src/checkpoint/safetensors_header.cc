// Strict reading and writing of safetensors headers; see safetensors_header.h.
#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "checkpoint/json_text.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Json = nlohmann::json;

struct DtypeBits {
  std::string_view name;
  int bits;
};

constexpr DtypeBits kDtypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

// Bytes of a tensor from shape and dtype, or FormatError when that overflows or ends inside a byte.
uint64_t tensor_bytes(const TensorEntry& tensor, const std::string& what) {
  uint64_t bits = static_cast<uint64_t>(safetensors_dtype_bits(tensor.dtype));
  if (bits == 0) throw FormatError(what + " has the unknown dtype '" + tensor.dtype + "'");
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(size), &bits)) {
      throw FormatError(what + " has a shape whose size overflows");
    }
  }
  if (bits % 8 != 0) throw FormatError(what + " does not end on a whole byte");
  return bits / 8;
}

// Parses the header as a stream of JSON events and rejects the first invalid one. No tree is built:
// hostile input costs no more memory than the tensors that it describes.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  HeaderEvents(SafetensorsHeader& header, const std::string& where)
      : header_(header), where_(where) {}

  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(int64_t) override { return other_value(); }
  bool number_float(double, const std::string&) override { return other_value(); }
  bool binary(Json::binary_t&) override { return other_value(); }

  bool number_unsigned(uint64_t number) override {
    if (passes_over()) return true;
    if (place_ == Place::shape) {
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw FormatError(what() + " has a shape whose size overflows");
      }
      entry_.shape.push_back(static_cast<int64_t>(number));
    } else if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = number;
    } else {
      misplaced();
    }
    return true;
  }

  bool string(std::string& text) override {
    if (passes_over()) return true;
    if (place_ == Place::dtype) {
      entry_.dtype = std::move(text);
      place_ = Place::entry;
    } else if (place_ == Place::metadata) {
      header_.metadata[key_] = std::move(text);
    } else {
      misplaced();
    }
    return true;
  }

  bool start_object(size_t) override {
    if (goes_deeper()) return true;
    if (place_ == Place::start) {
      place_ = Place::names;
    } else if (place_ == Place::before_entry) {
      place_ = Place::entry;
      seen_ = {};
    } else if (place_ == Place::before_metadata) {
      place_ = Place::metadata;
    } else {
      misplaced();
    }
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::unknown) return true;
    key_ = std::move(name);
    if (place_ == Place::names) {
      top_level_key();
    } else if (place_ == Place::metadata) {
      if (header_.metadata.contains(key_)) twice();
    } else if (key_ == "dtype") {
      field(seen_.dtype, Place::dtype);
    } else if (key_ == "shape") {
      field(seen_.shape, Place::before_shape);
    } else if (key_ == "data_offsets") {
      field(seen_.offsets, Place::before_offsets);
    } else {
      place_ = Place::unknown;  // Python's reader passes over it, too
      depth_ = 0;
    }
    return true;
  }

  bool end_object() override {
    if (comes_back()) return true;
    if (place_ == Place::entry) finish_entry();
    place_ = place_ == Place::names ? Place::end : Place::names;
    return true;
  }

  bool start_array(size_t) override {
    if (goes_deeper()) return true;
    if (place_ == Place::before_shape) {
      place_ = Place::shape;
    } else if (place_ == Place::before_offsets) {
      place_ = Place::offsets;
      offsets_ = 0;
    } else {
      misplaced();
    }
    return true;
  }

  bool end_array() override {
    if (comes_back()) return true;
    if (place_ == Place::offsets && offsets_ != 2) misplaced();
    place_ = Place::entry;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    throw FormatError(where_ + ": the header is not JSON: " + error.what());
  }

 private:
  // What the next event belongs to.
  enum class Place {
    start,
    names,
    before_entry,
    entry,
    dtype,
    before_shape,
    shape,
    before_offsets,
    offsets,
    unknown,  // the value of a key of an entry that this reader does not know, depth_ levels into it
    before_metadata,
    metadata,
    end,
  };

  struct Seen {
    bool dtype = false, shape = false, offsets = false;
  };

  std::string what() const { return where_ + ": tensor '" + entry_.name + "'"; }

  [[noreturn]] void twice() const {
    throw FormatError(where_ + ": the key '" + key_ + "' appears twice");
  }

  [[noreturn]] void wrong_fields() const {
    throw FormatError(what() + " must have dtype, shape and data_offsets");
  }

  bool passes_over() {
    if (place_ != Place::unknown) return false;
    if (depth_ == 0) place_ = Place::entry;
    return true;
  }
  bool goes_deeper() {
    if (place_ != Place::unknown) return false;
    ++depth_;
    return true;
  }
  bool comes_back() {
    if (place_ != Place::unknown) return false;
    --depth_;
    return passes_over();
  }
  bool other_value() {
    if (!passes_over()) misplaced();
    return true;
  }

  // A value of the wrong kind.
  [[noreturn]] void misplaced() const {
    switch (place_) {
      case Place::before_metadata:
        throw FormatError(where_ + ": __metadata__ is not an object");
      case Place::metadata:
        throw FormatError(where_ + ": __metadata__['" + key_ + "'] is not a string");
      case Place::dtype:
        throw FormatError(what() + " has a dtype that is not a string");
      case Place::before_shape:
        throw FormatError(what() + " has a shape that is not a list");
      case Place::shape:
        throw FormatError(what() + ": a size of the shape is not a whole number");
      case Place::before_offsets:
      case Place::offsets:
        throw FormatError(what() + " must have two data_offsets, whole numbers");
      default:
        wrong_fields();
    }
  }

  void top_level_key() {
    if (key_ != "__metadata__") {
      entry_ = TensorEntry{};
      entry_.name = key_;
      place_ = Place::before_entry;
      return;
    }
    if (std::exchange(has_metadata_, true)) twice();
    place_ = Place::before_metadata;
  }

  void field(bool& seen, Place next) {
    if (std::exchange(seen, true)) twice();
    place_ = next;
  }

  void finish_entry() {
    if (!seen_.dtype || !seen_.shape || !seen_.offsets) wrong_fields();
    if (entry_.end < entry_.begin || entry_.end - entry_.begin != tensor_bytes(entry_, what())) {
      throw FormatError(what() + " has data_offsets that do not fit its dtype and shape");
    }
    header_.tensors.push_back(std::move(entry_));
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  Place place_ = Place::start;
  std::string key_;
  TensorEntry entry_;
  int offsets_ = 0;
  uint64_t depth_ = 0;
  Seen seen_;
  bool has_metadata_ = false;
};

void require_distinct_names(const std::vector<TensorEntry>& tensors, const std::string& where) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw FormatError(where + ": the key '" + std::string(*twice) + "' appears twice");
}

void require_covering(const std::vector<TensorEntry>& tensors, uint64_t data_bytes,
                      const std::string& where) {
  uint64_t expected = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != expected) {
      throw FormatError(where + ": tensor '" + tensor.name + "' starts at byte " +
                        std::to_string(tensor.begin) + " of the data, expected " +
                        std::to_string(expected) + " (a gap or an overlap)");
    }
    expected = tensor.end;
  }
  if (expected != data_bytes) {
    throw FormatError(where + ": the tensors take " + std::to_string(expected) +
                      " bytes, the file has " + std::to_string(data_bytes) +
                      " after its header (truncated or damaged)");
  }
}

// The bytes of Python's writer.
std::string header_text(const std::vector<TensorEntry>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + Json(metadata).dump();
  for (const TensorEntry& tensor : tensors) {
    if (text.size() > 1) text += ',';
    append_json_name(text, tensor.name);
    text += ":{\"dtype\":";
    append_json_name(text, tensor.dtype);
    text += ",\"shape\":";
    append_json_integers(text, tensor.shape);
    text += ",\"data_offsets\":";
    append_json_integers(text, std::array{tensor.begin, tensor.end});
    text += '}';
  }
  return text + "}";
}

}  // namespace

int safetensors_dtype_bits(std::string_view dtype) {
  for (const DtypeBits& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& where) {
  if (json.empty() || json.front() != '{') {
    throw FormatError(where + ": the header does not start with '{'");
  }
  SafetensorsHeader header;
  HeaderEvents events(header, where);
  Json::sax_parse(json.begin(), json.end(), &events);
  require_distinct_names(header.tensors, where);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  require_covering(header.tensors, data_bytes, where);
  return header;
}

std::string format_safetensors_header(std::vector<TensorEntry>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  uint64_t offset = 0;
  std::unordered_set<std::string_view> names;
  for (TensorEntry& tensor : tensors) {
    const std::string what = "tensor '" + tensor.name + "'";
    if (tensor.name == "__metadata__") throw FormatError(what + ": this name is reserved");
    if (!names.insert(tensor.name).second) throw FormatError(what + " appears twice");
    tensor.begin = offset;
    offset += tensor_bytes(tensor, what);
    tensor.end = offset;
  }
  std::string json;
  try {
    json = header_text(tensors, metadata);
  } catch (const Json::exception& error) {
    throw FormatError(std::string("a tensor name or metadata value is not UTF-8: ") + error.what());
  }
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kSafetensorsHeaderBytesMax) {
    throw FormatError("the header would take " + std::to_string(json.size()) +
                      " bytes, the format allows " + std::to_string(kSafetensorsHeaderBytesMax));
  }
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i));
  return bytes + json;
}

}  // namespace muster
