// Reads models/NAME.json and the lists of weights of a .pt2 archive. Pure. Hostile input causes a FormatError. No torch.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "exported/exported_program.h"

namespace muster {

// Of one JSON record of an archive; a longer one is refused. Its tree takes some twenty times as much while it is read.
inline constexpr uint64_t kProgramBytesMax = 64 << 20;
// The schema's major version; files of newer minor ones are read, as in Python.
inline constexpr int64_t kSchemaMajor = 8;

// Throws FormatError("<where>: <rule>").
ExportedProgram parse_exported_program(std::string_view json, const std::string& where);

// Of a number of schema.py's ScalarType the name that safetensors has, or would have; empty: unknown.
std::string_view exported_dtype(int64_t code);

// A weight's entry in data/weights/NAME_weights_config.json.
struct PayloadEntry {
  std::string record;  // "weight_0"
  bool is_parameter = false, is_pickled = false;
  ExportedTensorMeta tensor;  // of one that is not pickled
};
std::map<std::string, PayloadEntry> parse_payloads(std::string_view json, const std::string& where);

}  // namespace muster
