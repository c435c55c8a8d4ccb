// An untrusted file of torch.export. Input: one byte, then 0: the archive; 1: a program's JSON; 2: a list of weights. Every weight
// lies within the file, and a graph reads only values that it has.
#include <algorithm>

#include "checkpoint/safetensors_header.h"
#include "exported/exported_archive.h"
#include "exported/program_json.h"
#include "fuzz/harness.h"
#include "muster/base/errors.h"

namespace {

using muster::ExportedGraph;
using muster::GraphArgument;

void check_argument(const GraphArgument& argument, const ExportedGraph& graph) {
  if (argument.is_slot()) FUZZ_EXPECT(argument.slot() < graph.slots.size());
  if (argument.kind == GraphArgument::Kind::graph)
    FUZZ_EXPECT(static_cast<size_t>(argument.integer) < graph.graphs.size());
  for (const GraphArgument& item : argument.items) check_argument(item, graph);
}

void check_graph(const ExportedGraph& graph) {
  for (const GraphArgument& input : graph.inputs) check_argument(input, graph);
  for (const GraphArgument& output : graph.outputs) check_argument(output, graph);
  for (const muster::GraphNode& node : graph.nodes) {
    for (const auto& [name, argument] : node.inputs) check_argument(argument, graph);
    for (const GraphArgument& output : node.outputs) check_argument(output, graph);
  }
  for (const ExportedGraph& inner : graph.graphs) check_graph(inner);
}

void check_program(const muster::ExportedProgram& program) {
  check_graph(program.graph);
  FUZZ_EXPECT(program.inputs.size() == program.graph.inputs.size());
  for (const muster::ProgramInput& input : program.inputs)
    check_argument(input.value, program.graph);
  for (const muster::ProgramOutput& output : program.outputs)
    check_argument(output.value, program.graph);
}

void check_weights(const muster::ExportedWeights& weights, uint64_t file_bytes) {
  for (const auto& [name, weight] : weights) {
    FUZZ_EXPECT(weight.storage_begin <= file_bytes &&
                weight.storage_bytes <= file_bytes - weight.storage_begin);
    FUZZ_EXPECT(weight.shape.size() == weight.strides.size());
    unsigned __int128 elements = 1, last = static_cast<uint64_t>(weight.storage_offset);
    for (size_t i = 0; i < weight.shape.size(); ++i) {
      elements *= static_cast<uint64_t>(weight.shape[i]);
      if (weight.shape[i] > 0)
        last += static_cast<unsigned __int128>(weight.shape[i] - 1) *
                static_cast<uint64_t>(weight.strides[i]);
    }
    const auto bits = static_cast<uint64_t>(muster::safetensors_dtype_bits(weight.dtype));
    FUZZ_EXPECT(elements == 0 || (last + 1) * bits <= weight.storage_bytes * 8);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = muster::testing::Text(data, size).substr(1);
  try {
    if (data[0] == 1) {
      check_program(muster::parse_exported_program(text, "fuzz"));
      return 0;
    }
    if (data[0] == 2) {
      muster::parse_payloads(text, "fuzz");
      return 0;
    }
    const muster::ByteSource file{
        text.size(), [&](uint64_t offset, char* into, size_t bytes) {
          FUZZ_EXPECT(offset <= text.size() && bytes <= text.size() - offset);
          std::copy_n(text.data() + offset, bytes, into);
        }};
    const muster::ExportedArchive archive = muster::read_exported_archive(file, "fuzz");
    check_program(archive.program);
    if (archive.evaluation.has_value()) check_program(*archive.evaluation);
    check_weights(archive.weights, text.size());
    check_weights(archive.constants, text.size());
    check_weights(archive.evaluation_constants, text.size());
  } catch (const muster::FormatError&) {
    return 0;
  }
  return 0;
}
