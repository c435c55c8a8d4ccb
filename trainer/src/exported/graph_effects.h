// Which values of a graph show the memory of others, and which nodes change whose memory.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exported/exported_program.h"

namespace muster {

// Calls f with each slot in the argument.
template <typename F>
void each_slot(const GraphArgument& argument, const F& f) {
  if (argument.is_slot()) f(argument.slot());
  for (const GraphArgument& item : argument.items) each_slot(item, f);
}

class GraphEffects {
 public:
  // The slots that an operator changes by its schema, as the values whose memory they show. Its results show memory by the schema
  // too: `view(Tensor(a) self, …) -> Tensor(a)`.
  std::vector<uint32_t> add(const GraphNode& node, const c10::FunctionSchema& schema);
  // A node that calls a graph which changes this memory.
  void add_write(const GraphNode& node, uint32_t memory);

  // The value whose memory a slot shows: the slot itself, or an earlier one.
  uint32_t memory_of(uint32_t slot) const;
  const std::vector<uint32_t>& written_by(const GraphNode& node) const;
  bool is_written(uint32_t memory) const { return written_.contains(memory); }

 private:
  void add_views(const GraphNode& node, const c10::FunctionSchema& schema);

  std::unordered_map<uint32_t, uint32_t> views_;
  std::unordered_map<const GraphNode*, std::vector<uint32_t>> writes_;
  std::unordered_set<uint32_t> written_;
};

}  // namespace muster
