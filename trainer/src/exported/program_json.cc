#include "exported/program_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/shown_text.h"
#include "exported/graph_json.h"
#include "exported/json_reader.h"
#include "exported/symbolic_size.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr int kTreeDepthMax = 64;  // of a nested input or output
constexpr size_t kKeyBytesMax = 1024;
constexpr size_t kPathsMax = 100'000;

SymbolicSize read_size(const JsonReader& reader, const Json& value) {
  if (const Json* number = reader.find(value, "as_int"))
    return {.offset = reader.integer(*number, "a size")};
  return parse_symbolic_size(reader.text_at(reader.object(value, "as_expr"), "expr_str"));
}

std::vector<SymbolicSize> read_sizes(const JsonReader& reader, const Json& meta, const char* key) {
  std::vector<SymbolicSize> sizes;
  for (const Json& value : reader.array(meta, key)) sizes.push_back(read_size(reader, value));
  return sizes;
}

ExportedTensorMeta read_meta(const JsonReader& reader, const Json& meta) {
  ExportedTensorMeta tensor;
  const int64_t code = reader.integer_at(meta, "dtype");
  tensor.dtype = exported_dtype(code);
  if (tensor.dtype.empty()) reader.fail("dtype " + std::to_string(code) + " is not known");
  tensor.sizes = read_sizes(reader, meta, "sizes");
  tensor.strides = read_sizes(reader, meta, "strides");
  tensor.storage_offset = read_size(reader, reader.at(meta, "storage_offset"));
  tensor.requires_grad = reader.boolean_at(meta, "requires_grad");
  if (reader.integer_at(meta, "layout") != 7)
    reader.fail("a tensor is not strided, but only such are read");
  return tensor;
}

// ---- nested inputs and outputs ----

void append_paths(const JsonReader& reader, const Json& tree, const std::string& path, int depth,
                  std::vector<std::string>& paths) {
  if (depth > kTreeDepthMax) reader.fail("an input or output is nested too deep");
  const Json* type = reader.find(tree, "type");
  if (type == nullptr) {
    paths.push_back(path);
    return;
  }
  const Json& children = reader.array(tree, "children_spec");
  // The keys of a dict: a list in a text. Other types have other contexts, or none.
  Json parsed;
  if (const Json* context = reader.find(tree, "context");
      context != nullptr && context->is_string())
    parsed =
        Json::parse(context->get_ref<const std::string&>(), nullptr, /*allow_exceptions=*/false);
  // Referred to and not copied: a copy of what is nested deep takes a deep stack.
  const Json* inner = parsed.is_object() ? reader.find(parsed, "dict_context") : nullptr;
  const Json& keys = inner == nullptr ? parsed : *inner;
  const bool named = keys.is_array() && keys.size() == children.size();
  for (size_t i = 0; i < children.size(); ++i) {
    const bool is_named = named && keys[i].is_string();
    const std::string key = is_named ? keys[i].get<std::string>() : std::to_string(i);
    if (key.size() > kKeyBytesMax || paths.size() > kPathsMax)
      reader.fail("an input or output has a key of very many bytes, or very many parts");
    append_paths(reader, children[i], path.empty() ? key : path + "." + key, depth + 1, paths);
  }
}

std::vector<std::string> leaf_paths(const JsonReader& reader, const std::string& text) {
  std::vector<std::string> paths;
  const Json tree = reader.parse(text);
  if (!tree.is_array() || tree.size() != 2) reader.fail("the form of a nested value is not known");
  append_paths(reader, tree[1], "", 0, paths);
  return paths;
}

// ---- the program ----

class ProgramReader {
 public:
  ProgramReader(const JsonReader& reader, const Json& json)
      : reader_(reader),
        json_(json),
        module_(reader.object(json, "graph_module")),
        graph_json_(reader.object(module_, "graph")),
        signature_(reader.object(module_, "signature")),
        graph_(reader, 0) {}

  ExportedProgram read() {
    check_version();
    program_.graph = graph_.read(graph_json_);
    read_modules();
    read_inputs();
    read_outputs();
    read_ranges();
    return std::move(program_);
  }

 private:
  void check_version() {
    if (const Json* version = reader_.find(json_, "torch_version"))
      program_.torch_version = reader_.text(*version, "torch_version");
    const int64_t major = reader_.integer_at(reader_.object(json_, "schema_version"), "major");
    if (major == kSchemaMajor) return;
    reader_.fail("its schema is version " + std::to_string(major) + ", but version " +
                 std::to_string(kSchemaMajor) + " is read (written by torch " +
                 shown_text(program_.torch_version) +
                 "); fix: export it again with torch 2.11 to 2.14");
  }

  void read_modules() {
    for (const Json& entry : reader_.array(module_, "module_call_graph")) {
      const std::string& name = reader_.text_at(entry, "fqn");
      if (!name.empty()) {
        program_.modules.push_back(name);
        continue;
      }
      const Json* signature = reader_.find(entry, "signature");
      if (signature == nullptr) continue;
      input_paths_ = leaf_paths(reader_, reader_.text_at(*signature, "in_spec"));
      output_paths_ = leaf_paths(reader_, reader_.text_at(*signature, "out_spec"));
      if (const Json* names = reader_.find(*signature, "forward_arg_names"); names != nullptr) {
        for (const Json& each : reader_.array(*signature, "forward_arg_names"))
          argument_names_.push_back(reader_.text(each, "forward_arg_names"));
      }
    }
  }

  // "0.1.key": of the second argument; "1.name": of a keyword argument.
  std::string input_name(const std::string& path) const {
    if (path.starts_with("1.")) return path.substr(2);
    if (!path.starts_with("0.")) return path;
    const size_t end = std::min(path.find('.', 2), path.size());
    const std::string index = path.substr(2, end - 2);
    const bool is_number = !index.empty() && index.size() < 6 &&
                           index.find_first_not_of("0123456789") == std::string::npos;
    const size_t place = is_number ? std::stoul(index) : argument_names_.size();
    return (place < argument_names_.size() ? argument_names_[place] : index) + path.substr(end);
  }

  void read_inputs() {
    const Json& specs = reader_.array(signature_, "input_specs");
    size_t given = 0;
    for (const Json& spec : specs) program_.inputs.push_back(read_input(spec, given));
    if (program_.inputs.size() != program_.graph.inputs.size())
      reader_.fail("its graph has another number of inputs than its signature");
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const GraphArgument& value = program_.graph.inputs[i];
      const GraphArgument& claimed = program_.inputs[i].value;
      if (claimed.is_slot() && (!value.is_slot() || value.integer != claimed.integer))
        reader_.fail("input " + std::to_string(i) + " of its graph is not that of its signature");
      if (value.is_slot()) program_.inputs[i].value = value;
    }
  }

  ProgramInput read_input(const Json& spec, size_t& given) {
    using InputKind = ProgramInput::Kind;
    const auto weight = [&](const Json& each, InputKind kind, const char* name) {
      ProgramInput input;
      input.kind = kind;
      input.name = reader_.text_at(each, name);
      input.value = graph_.tensor(reader_.object(each, "arg"));
      return input;
    };
    if (const Json* parameter = reader_.find(spec, "parameter"))
      return weight(*parameter, InputKind::parameter, "parameter_name");
    if (const Json* buffer = reader_.find(spec, "buffer")) {
      ProgramInput input = weight(*buffer, InputKind::buffer, "buffer_name");
      input.persistent = reader_.boolean_at(*buffer, "persistent");
      return input;
    }
    if (const Json* constant = reader_.find(spec, "tensor_constant"))
      return weight(*constant, InputKind::constant, "tensor_constant_name");
    const Json* constant = reader_.find(spec, "constant_input");
    const Json* user = reader_.find(spec, "user_input");
    if (constant == nullptr && user == nullptr)
      reader_.fail("it has an input that only Python can give: a custom object or a token");
    ProgramInput input;
    if (constant != nullptr) {
      input.name = reader_.text_at(*constant, "name");
      input.value = graph_.argument(reader_.at(*constant, "value"));
    } else {
      const Json& argument = reader_.object(*user, "arg");
      input.value = graph_.argument(argument);
      if (input.value.is_slot())
        input.name = input.graph_name = program_.graph.slots.at(input.value.slot());
      if (reader_.find(argument, "as_tensor") != nullptr) input.tensor = meta_of(input.value);
      input.is_integer = reader_.find(argument, "as_sym_int") != nullptr;
    }
    if (given < input_paths_.size()) input.name = input_name(input_paths_[given]);
    ++given;
    return input;
  }

  std::optional<ExportedTensorMeta> meta_of(const GraphArgument& value) const {
    const Json& values = reader_.object(graph_json_, "tensor_values");
    const Json* meta = reader_.find(values, program_.graph.slots.at(value.slot()).c_str());
    if (meta == nullptr) return std::nullopt;
    return read_meta(reader_, *meta);
  }

  void read_outputs() {
    size_t given = 0;
    for (const Json& spec : reader_.array(signature_, "output_specs"))
      program_.outputs.push_back(read_output(spec, given));
    const std::vector<GraphArgument>& made = program_.graph.outputs;
    if (made.size() != program_.outputs.size())
      reader_.fail("its graph has another number of outputs than its signature");
    for (size_t i = 0; i < made.size(); ++i) {
      const GraphArgument& claimed = program_.outputs[i].value;
      const bool is_same = made[i].kind == claimed.kind &&
                           (!made[i].is_slot() || made[i].integer == claimed.integer);
      if (!is_same || made[i].kind == GraphArgument::Kind::list)
        reader_.fail("output " + std::to_string(i) + " of its graph is not that of its signature");
    }
  }

  ProgramOutput read_output(const Json& spec, size_t& given) {
    using OutputKind = ProgramOutput::Kind;
    const std::array<std::tuple<const char*, OutputKind, const char*>, 3> changes = {{
        {"buffer_mutation", OutputKind::buffer_change, "buffer_name"},
        {"parameter_mutation", OutputKind::parameter_change, "parameter_name"},
        {"user_input_mutation", OutputKind::input_change, "user_input_name"},
    }};
    for (const auto& [key, kind, name] : changes) {
      const Json* change = reader_.find(spec, key);
      if (change == nullptr) continue;
      return {kind, reader_.text_at(*change, name), graph_.tensor(reader_.object(*change, "arg"))};
    }
    ProgramOutput output;
    if (const Json* user = reader_.find(spec, "user_output")) {
      output.value = graph_.argument(reader_.at(*user, "arg"));
    } else if (const Json* loss = reader_.find(spec, "loss_output")) {
      output.value = graph_.tensor(reader_.object(*loss, "arg"));
    } else {
      reader_.fail("it has an output that only Python can take: a gradient or a token");
    }
    output.name = given < output_paths_.size() ? output_paths_[given] : std::to_string(given);
    ++given;
    return output;
  }

  void read_ranges() {
    const Json* ranges = reader_.find(json_, "range_constraints");
    if (ranges == nullptr) return;
    for (const auto& [symbol, json] : ranges->items()) {
      SizeRange range;
      if (const Json* least = reader_.find(json, "min_val"))
        range.least = bound_of(*least, range.least);
      if (const Json* most = reader_.find(json, "max_val"))
        range.most = bound_of(*most, range.most);
      program_.ranges[symbol] = range;
    }
  }
  // Bounds may be infinite.
  int64_t bound_of(const Json& value, int64_t otherwise) const {
    return value.is_number_integer() ? reader_.integer(value, "a bound") : otherwise;
  }

  const JsonReader& reader_;
  const Json& json_;
  const Json& module_;
  const Json& graph_json_;
  const Json& signature_;
  GraphReader graph_;
  ExportedProgram program_;
  std::vector<std::string> input_paths_, output_paths_, argument_names_;
};

}  // namespace

std::string_view exported_dtype(int64_t code) {
  switch (code) {
    case 1:
      return "U8";
    case 2:
      return "I8";
    case 3:
      return "I16";
    case 4:
      return "I32";
    case 5:
      return "I64";
    case 6:
      return "F16";
    case 7:
      return "F32";
    case 8:
      return "F64";
    case 10:
      return "C64";
    case 11:
      return "C128";
    case 12:
      return "BOOL";
    case 13:
      return "BF16";
    case 28:
      return "U16";
    case 29:
      return "F8_E4M3";
    case 30:
      return "F8_E5M2";
    case 31:
      return "F8_E4M3FNUZ";
    case 32:
      return "F8_E5M2FNUZ";
    case 33:
      return "F8_E8M0";
    case 34:
      return "U32";
    case 35:
      return "U64";
    default:
      return "";
  }
}

ExportedProgram parse_exported_program(std::string_view json, const std::string& where) {
  const JsonReader reader(where);
  const Json tree = reader.parse(json);
  return ProgramReader(reader, tree).read();
}

std::map<std::string, PayloadEntry> parse_payloads(std::string_view json,
                                                   const std::string& where) {
  const JsonReader reader(where);
  const Json tree = reader.parse(json);
  std::map<std::string, PayloadEntry> entries;
  for (const auto& [name, payload] : reader.object(tree, "config").items()) {
    PayloadEntry entry;
    entry.record = reader.text_at(payload, "path_name");
    entry.is_parameter = reader.boolean_at(payload, "is_param");
    entry.is_pickled = reader.boolean_at(payload, "use_pickle");
    if (!entry.is_pickled) entry.tensor = read_meta(reader, reader.object(payload, "tensor_meta"));
    entries[name] = std::move(entry);
  }
  return entries;
}

}  // namespace muster
