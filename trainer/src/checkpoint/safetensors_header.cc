// Strict reading and writing of safetensors headers; see safetensors_header.h.
#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "muster/errors.h"

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

// A header has two levels of objects and an array; deeper input is refused before it is built.
constexpr int kDepthMax = 4;

Json parse_json(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDepthMax) throw FormatError(where + ": the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      throw FormatError(where + ": the key '" + parsed.get<std::string>() + "' appears twice");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    throw FormatError(where + ": the header is not JSON: " + error.what());
  }
}

uint64_t unsigned_at(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned()) throw FormatError(what + " is not a whole number");
  return value.get<uint64_t>();
}

// Bytes of a tensor from shape and dtype, or FormatError when that overflows or ends inside a byte.
uint64_t bytes_of(const TensorEntry& tensor, const std::string& what) {
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

TensorEntry parse_entry(const std::string& name, const Json& value, const std::string& where) {
  const std::string what = where + ": tensor '" + name + "'";
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    throw FormatError(what + " must have exactly dtype, shape and data_offsets");
  }
  TensorEntry entry;
  entry.name = name;
  if (!value["dtype"].is_string()) throw FormatError(what + " has a dtype that is not a string");
  entry.dtype = value["dtype"].get<std::string>();
  if (!value["shape"].is_array()) throw FormatError(what + " has a shape that is not a list");
  for (const Json& size : value["shape"]) {
    const uint64_t number = unsigned_at(size, what + ": a size of the shape");
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw FormatError(what + " has a shape whose size overflows");
    }
    entry.shape.push_back(static_cast<int64_t>(number));
  }
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    throw FormatError(what + " must have two data_offsets");
  }
  entry.begin = unsigned_at(offsets[0], what + ": data_offsets[0]");
  entry.end = unsigned_at(offsets[1], what + ": data_offsets[1]");
  if (entry.end < entry.begin || entry.end - entry.begin != bytes_of(entry, what)) {
    throw FormatError(what + " has data_offsets that do not fit its dtype and shape");
  }
  return entry;
}

void require_covering(const std::vector<TensorEntry>& tensors, uint64_t data_bytes,
                      const std::string& where) {
  uint64_t expected = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != expected) {
      throw FormatError(where + ": tensor '" + tensor.name + "' starts at byte " +
                        std::to_string(tensor.begin) + " of the data, expected " +
                        std::to_string(expected) + " (a hole or an overlap)");
    }
    expected = tensor.end;
  }
  if (expected != data_bytes) {
    throw FormatError(where + ": the tensors take " + std::to_string(expected) +
                      " bytes, the file has " + std::to_string(data_bytes) +
                      " after its header (truncated or damaged)");
  }
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
  const Json root = parse_json(json, where);
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(parse_entry(name, value, where));
      continue;
    }
    if (!value.is_object()) throw FormatError(where + ": __metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        throw FormatError(where + ": __metadata__['" + key + "'] is not a string");
      }
      header.metadata[key] = text.get<std::string>();
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  require_covering(header.tensors, data_bytes, where);
  return header;
}

std::string format_safetensors_header(std::vector<TensorEntry>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (TensorEntry& tensor : tensors) {
    const std::string what = "tensor '" + tensor.name + "'";
    if (tensor.name == "__metadata__") throw FormatError(what + ": this name is reserved");
    tensor.begin = offset;
    offset += bytes_of(tensor, what);
    tensor.end = offset;
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {tensor.begin, tensor.end};
    if (root.contains(tensor.name)) throw FormatError(what + " appears twice");
    root[tensor.name] = std::move(entry);
  }
  std::string json;
  try {
    json = root.dump();
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
