#include "exported/graph_effects.h"

#include <algorithm>

namespace muster {
namespace {

const GraphArgument* slot_given(const GraphNode& node, const c10::Argument& wanted) {
  for (const auto& [name, argument] : node.inputs) {
    if (name == wanted.name() && argument.is_slot()) return &argument;
  }
  return nullptr;
}

}  // namespace

std::vector<uint32_t> GraphEffects::add(const GraphNode& node, const c10::FunctionSchema& schema) {
  add_views(node, schema);
  std::vector<uint32_t> changed;
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.alias_info() == nullptr || !argument.alias_info()->isWrite()) continue;
    const GraphArgument* given = slot_given(node, argument);
    if (given == nullptr) continue;
    changed.push_back(memory_of(given->slot()));
    add_write(node, changed.back());
  }
  return changed;
}

void GraphEffects::add_write(const GraphNode& node, uint32_t memory) {
  writes_[&node].push_back(memory);
  written_.insert(memory);
}

// Of the first argument that may be shown; in-place operators return what they change.
void GraphEffects::add_views(const GraphNode& node, const c10::FunctionSchema& schema) {
  const bool returns_view =
      std::any_of(schema.returns().begin(), schema.returns().end(),
                  [](const c10::Argument& each) { return each.alias_info() != nullptr; });
  if (!returns_view) return;
  for (const c10::Argument& argument : schema.arguments()) {
    const GraphArgument* given =
        argument.alias_info() == nullptr ? nullptr : slot_given(node, argument);
    if (given == nullptr) continue;
    const uint32_t memory = memory_of(given->slot());
    for (const GraphArgument& output : node.outputs)
      each_slot(output, [&](uint32_t slot) { views_.emplace(slot, memory); });
    return;
  }
}

uint32_t GraphEffects::memory_of(uint32_t slot) const {
  const auto found = views_.find(slot);
  return found == views_.end() ? slot : found->second;
}

const std::vector<uint32_t>& GraphEffects::written_by(const GraphNode& node) const {
  static const std::vector<uint32_t> none;
  const auto found = writes_.find(&node);
  return found == writes_.end() ? none : found->second;
}

}  // namespace muster
