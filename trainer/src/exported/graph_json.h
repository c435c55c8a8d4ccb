// Reads the graph of an exported program; its values get their numbers as they are made. No torch.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "exported/exported_program.h"
#include "exported/json_reader.h"

namespace muster {

class GraphReader {
 public:
  // `depth`: of graphs that are called by graphs.
  GraphReader(const JsonReader& reader, int depth);
  ~GraphReader();
  GraphReader(const GraphReader&) = delete;
  GraphReader& operator=(const GraphReader&) = delete;

  ExportedGraph read(const nlohmann::json& graph);

  // Of what lies beside the graph and names its values; after read().
  GraphArgument argument(const nlohmann::json& argument);
  GraphArgument tensor(const nlohmann::json& argument);  // {"name": …}

 private:
  class Reading;
  std::unique_ptr<Reading> reading_;
};

}  // namespace muster
