#include "exported/graph_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/shown_text.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using Kind = GraphArgument::Kind;

constexpr int kGraphDepthMax = 16;

}  // namespace

class GraphReader::Reading {
 public:
  Reading(const JsonReader& reader, int depth) : reader_(reader), depth_(depth) {
    if (depth > kGraphDepthMax) reader.fail("its graphs call each other too deep");
  }

  ExportedGraph read(const Json& json) {
    for (const Json& input : reader_.array(json, "inputs")) graph_.inputs.push_back(made(input));
    for (const Json& node : reader_.array(json, "nodes")) graph_.nodes.push_back(read_node(node));
    for (const Json& output : reader_.array(json, "outputs"))
      graph_.outputs.push_back(argument(output));
    return std::move(graph_);
  }

  // An argument outside of the graph that names its values.
  GraphArgument argument(const Json& json) { return read_argument(json, /*makes=*/false); }
  GraphArgument tensor(const Json& json) {
    return slot(reader_.text_at(json, "name"), /*makes=*/false);
  }

 private:
  GraphArgument made(const Json& json) { return read_argument(json, /*makes=*/true); }

  GraphNode read_node(const Json& json) {
    GraphNode node;
    node.target = reader_.text_at(json, "target");
    if (const Json* name = reader_.find(json, "name")) node.name = reader_.text(*name, "name");
    node.module = module_of(json);
    for (const Json& input : reader_.array(json, "inputs")) {
      node.inputs.emplace_back(reader_.text_at(input, "name"), argument(reader_.at(input, "arg")));
    }
    for (const Json& output : reader_.array(json, "outputs")) node.outputs.push_back(made(output));
    return node;
  }

  // "L__self__,,Net;L__self__layers.0,layers.0,torch.nn.Linear": the second part of the last entry. A module that is called
  // several times has "@1" and so on.
  std::string module_of(const Json& node) const {
    const Json* metadata = reader_.find(node, "metadata");
    const Json* stack = metadata == nullptr ? nullptr : reader_.find(*metadata, "nn_module_stack");
    if (stack == nullptr || !stack->is_string()) return "";
    std::string_view text = stack->get_ref<const std::string&>();
    if (const size_t last = text.rfind(';'); last != std::string_view::npos)
      text.remove_prefix(last + 1);
    const size_t first = text.find(',');
    if (first == std::string_view::npos) return "";
    text.remove_prefix(first + 1);
    return std::string(text.substr(0, std::min(text.find(','), text.find('@'))));
  }

  GraphArgument slot(const std::string& name, bool makes) {
    if (makes) {
      const auto [place, is_new] = slot_of_.try_emplace(name, graph_.slots.size());
      if (!is_new) reader_.fail("value '" + shown_text(name) + "' is made twice");
      graph_.slots.push_back(name);
      return {.kind = Kind::slot, .integer = place->second};
    }
    const auto found = slot_of_.find(name);
    if (found == slot_of_.end())
      reader_.fail("value '" + shown_text(name) + "' is read before it is made");
    return {.kind = Kind::slot, .integer = found->second};
  }

  template <typename Read>
  GraphArgument list(const Json& values, const Read& read) {
    if (!values.is_array()) reader_.fail("a list of arguments is not one");
    GraphArgument result{.kind = Kind::list};
    for (const Json& value : values) result.items.push_back(read(value));
    return result;
  }

  GraphArgument integer(const Json& value, Kind kind = Kind::integer) const {
    return {.kind = kind, .integer = reader_.integer(value, "an argument")};
  }
  GraphArgument real(const Json& value) const {
    return {.kind = Kind::real, .real = reader_.real(value, "an argument")};
  }
  GraphArgument boolean(const Json& value) const {
    return {.kind = Kind::boolean, .integer = reader_.boolean(value, "an argument") ? 1 : 0};
  }
  GraphArgument text(const Json& value) const {
    return {.kind = Kind::text, .text = reader_.text(value, "an argument")};
  }
  GraphArgument device(const Json& value) const {
    return {.kind = Kind::device, .text = reader_.text_at(value, "type")};
  }
  GraphArgument complex(const Json& value) const {
    return {.kind = Kind::complex,
            .real = reader_.real(reader_.at(value, "real"), "an argument"),
            .imaginary = reader_.real(reader_.at(value, "imag"), "an argument")};
  }
  GraphArgument subgraph(const Json& value) {
    graph_.graphs.push_back(GraphReader(reader_, depth_ + 1).read(reader_.object(value, "graph")));
    return {.kind = Kind::graph, .integer = static_cast<int64_t>(graph_.graphs.size()) - 1};
  }

  // The one member of a union.
  const std::pair<std::string, const Json*> member(const Json& json) const {
    if (!json.is_object()) reader_.fail("an argument is not an object");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_null()) return {key, &value};
    }
    reader_.fail("an argument has no value");
  }

  GraphArgument read_argument(const Json& json, bool makes) {
    const auto [key, found] = member(json);
    const Json& value = *found;
    const auto tensor = [&](const Json& each) {
      return slot(reader_.text_at(each, "name"), makes);
    };
    // A value of the graph, or a number.
    const auto symbolic = [&](const Json& each) -> GraphArgument {
      const auto [kind, inner] = member(each);
      if (kind == "as_name") return slot(reader_.text(*inner, "as_name"), makes);
      if (kind == "as_int") return integer(*inner);
      if (kind == "as_float") return real(*inner);
      if (kind == "as_bool") return boolean(*inner);
      if (kind == "as_tensor") return tensor(*inner);
      if (kind == "as_none") return {};
      reader_.fail("argument kind '" + shown_text(kind) + "' is not known");
    };
    if (key == "as_none") return {};
    if (key == "as_tensor") return tensor(value);
    if (key == "as_tensors") return list(value, tensor);
    if (key == "as_int") return integer(value);
    if (key == "as_ints") return list(value, [&](const Json& each) { return integer(each); });
    if (key == "as_float") return real(value);
    if (key == "as_floats") return list(value, [&](const Json& each) { return real(each); });
    if (key == "as_string") return text(value);
    if (key == "as_strings") return list(value, [&](const Json& each) { return text(each); });
    if (key == "as_bool") return boolean(value);
    if (key == "as_bools") return list(value, [&](const Json& each) { return boolean(each); });
    if (key == "as_sym_int" || key == "as_sym_float" || key == "as_sym_bool" ||
        key == "as_optional_tensor")
      return symbolic(value);
    if (key == "as_sym_ints" || key == "as_sym_floats" || key == "as_sym_bools" ||
        key == "as_optional_tensors")
      return list(value, symbolic);
    if (key == "as_scalar_type") return integer(value, Kind::scalar_type);
    if (key == "as_memory_format") return integer(value, Kind::memory_format);
    if (key == "as_layout") return integer(value, Kind::layout);
    if (key == "as_device") return device(value);
    if (key == "as_complex") return complex(value);
    if (key == "as_graph") return subgraph(value);
    if (key == "as_nested_tensors")
      return list(value, [&](const Json& each) { return list(each, tensor); });
    if (key == "as_int_lists") {
      return list(value, [&](const Json& each) {
        return list(each, [&](const Json& one) { return integer(one); });
      });
    }
    reader_.fail(
        "argument kind '" + shown_text(key) +
        "' cannot be used here: custom objects, tokens and operators as values belong to Python");
  }

  const JsonReader& reader_;
  const int depth_;
  ExportedGraph graph_;
  std::unordered_map<std::string, int64_t> slot_of_;
};

GraphReader::GraphReader(const JsonReader& reader, int depth)
    : reading_(std::make_unique<Reading>(reader, depth)) {}
GraphReader::~GraphReader() = default;

ExportedGraph GraphReader::read(const Json& graph) { return reading_->read(graph); }
GraphArgument GraphReader::argument(const Json& argument) { return reading_->argument(argument); }
GraphArgument GraphReader::tensor(const Json& argument) { return reading_->tensor(argument); }

}  // namespace muster
