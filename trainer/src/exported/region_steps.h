// Graphs that a graph calls: regions without gradients or with autocast, branches and loops. Source:
// torch/_higher_order_ops of torch 2.13.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exported/graph_compiler.h"

namespace muster {

using CompileInner = std::function<std::shared_ptr<CompiledGraph>(const GraphArgument& graph)>;

// Null for an unknown one. Throws FormatError("<where>…") for arguments of another form than its own.
std::unique_ptr<GraphStep> make_region_step(const std::string& name, const GraphNode& node,
                                            const CompileInner& compile, const std::string& where);

}  // namespace muster
