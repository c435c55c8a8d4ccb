// What a file of torch.export says, as values: the graph of a net, the places of its weights, the shapes that it accepts.
// Source: torch/_export/serde/schema.py of torch 2.13, schema 8.20. No torch.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// An argument, a result or a constant of a graph. Values of a graph are numbered: a slot.
struct GraphArgument {
  enum class Kind : uint8_t {
    none,
    slot,
    integer,
    real,
    boolean,
    text,
    complex,
    scalar_type,  // by the schema's own number, in `integer`; so are the next two
    memory_format,
    layout,
    device,
    list,
    graph  // in ExportedGraph::graphs, by `integer`
  };
  Kind kind = Kind::none;
  int64_t integer = 0;  // slots, booleans, too
  double real = 0, imaginary = 0;
  std::string text = {};
  std::vector<GraphArgument> items = {};

  bool is_slot() const { return kind == Kind::slot; }
  uint32_t slot() const { return static_cast<uint32_t>(integer); }
};

struct GraphNode {
  std::string target;  // "torch.ops.aten.linear.default"
  std::string name;    // for errors
  std::string module;  // the module that it was traced in, "layers.0.attn"; empty: the net itself
  std::vector<std::pair<std::string, GraphArgument>>
      inputs;                          // by the names of the operator's schema
  std::vector<GraphArgument> outputs;  // slots, none, or lists of them
};

struct ExportedGraph {
  std::vector<std::string> slots;  // names of the values
  std::vector<GraphArgument> inputs, outputs;
  std::vector<GraphNode> nodes;
  std::vector<ExportedGraph> graphs;  // those that its nodes call
};

// "s77", "2*s77 + 1", or a number alone (no symbol).
struct SymbolicSize {
  std::string symbol = {};
  int64_t factor = 0, offset = 0;
  bool is_known = true;  // false: an expression of another form, which is not checked
};

struct ExportedTensorMeta {
  std::string dtype;  // as safetensors writes it, "F32"
  std::vector<SymbolicSize> sizes, strides;
  SymbolicSize storage_offset;
  bool requires_grad = false;
};

struct ProgramInput {
  enum class Kind : uint8_t { parameter, buffer, constant, user };
  Kind kind = Kind::user;
  std::string name;         // of the weight; of a user's input its path: "x", "batch.0"
  std::string graph_name;   // of a user's input: that of its value in the graph
  bool persistent = true;   // of a buffer: in the state_dict
  bool is_integer = false;  // of a user's input that is a number
  GraphArgument value;      // a slot, or of a user's input the constant that it was exported with
  std::optional<ExportedTensorMeta> tensor = {};  // of a user's input that is a tensor
};

struct ProgramOutput {
  enum class Kind : uint8_t { user, buffer_change, parameter_change, input_change };
  Kind kind = Kind::user;
  std::string
      name;  // of what is changed; of a user's output its path: "loss", "hidden.0", "" for a tensor alone
  GraphArgument value;
};

struct SizeRange {
  int64_t least = 0, most = std::numeric_limits<int64_t>::max();
};

struct ExportedProgram {
  std::string torch_version;
  ExportedGraph graph;
  std::vector<ProgramInput> inputs;  // in the order of the graph's
  std::vector<ProgramOutput> outputs;
  std::map<std::string, SizeRange, std::less<>> ranges;  // of symbols
  std::vector<std::string> modules;  // those of the net, also without weights: "layers.0.2"
};

// Where the bytes of a weight or a constant lie in the file.
struct ExportedWeight {
  std::string dtype;
  std::vector<int64_t> shape, strides;            // in elements
  int64_t storage_offset = 0;                     // in elements
  uint64_t storage_begin = 0, storage_bytes = 0;  // weights of one storage share their memory
  bool is_parameter = false, requires_grad = false;
};
using ExportedWeights = std::map<std::string, ExportedWeight, std::less<>>;

}  // namespace muster
