// Modules by Python's names: plain ones, and lists where the children are numbers.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

class ModuleTree {
 public:
  // `names`: of modules, "layers.0.attn"; those above them are made too, in the order of the names. `root` is not owned. Throws
  // FormatError for names of very many parts.
  ModuleTree(torch::nn::Module& root, const std::vector<std::string>& names);

  // The innermost module on the path.
  torch::nn::Module& at(std::string_view path) const;
  // The children of the outermost lists, "layers.0".
  std::set<std::string, std::less<>> blocks() const;

 private:
  struct Node {
    std::map<std::string, Node, std::less<>> children;
    std::vector<std::string> order;  // of the children, as they were named first
    torch::nn::Module* module = nullptr;
  };

  std::shared_ptr<torch::nn::Module> make(const Node& node);
  void build(Node& node);
  void collect_blocks(const Node& node, const std::string& name,
                      std::set<std::string, std::less<>>& blocks) const;

  Node root_;
  size_t gaps_ = 0;  // modules that stand for missing numbers
};

// "layers" and "weight" of "layers.weight".
std::pair<std::string, std::string> split_name(const std::string& name);

}  // namespace muster
