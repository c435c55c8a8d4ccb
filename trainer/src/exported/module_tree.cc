#include "exported/module_tree.h"

#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <utility>

#include "muster/base/errors.h"

namespace muster {
namespace {

// A list has a module for each number, even for those that the net does not have: at most as many again, and a few.
constexpr size_t kGapsMax = 8;
constexpr size_t kGapsInAllMax = 10'000;
constexpr size_t kDepthMax = 64;  // modules are built and freed by recursion

class PlainModule : public torch::nn::Module {
 public:
  PlainModule() : torch::nn::Module("ExportedPart") {}
};

// One more than the largest number; 0 if one is not a number, or too large for a list.
template <typename Children>
size_t list_size(const Children& children) {
  size_t size = 0;
  for (const auto& [name, child] : children) {
    const bool is_number = !name.empty() && name.size() < 8 &&
                           name.find_first_not_of("0123456789") == std::string::npos &&
                           (name == "0" || name[0] != '0');
    if (!is_number) return 0;
    size = std::max(size, static_cast<size_t>(std::stoul(name)) + 1);
  }
  return size <= 2 * children.size() + kGapsMax ? size : 0;
}

// The first part of the path, which is taken from it.
std::string_view take_part(std::string_view& path) {
  const size_t end = std::min(path.find('.'), path.size());
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return part;
}

}  // namespace

std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

ModuleTree::ModuleTree(torch::nn::Module& root, const std::vector<std::string>& names) {
  root_.module = &root;
  for (std::string_view path : names) {
    Node* node = &root_;
    size_t depth = 0;
    while (!path.empty()) {
      if (++depth > kDepthMax)
        throw FormatError("modules of the net lie in each other deeper than " +
                          std::to_string(kDepthMax));
      const std::string part(take_part(path));
      const auto [child, is_new] = node->children.try_emplace(part);
      if (is_new) node->order.push_back(part);
      node = &child->second;
    }
  }
  build(root_);
}

std::shared_ptr<torch::nn::Module> ModuleTree::make(const Node& node) {
  const size_t size = list_size(node.children);
  const size_t gaps = size - std::min(size, node.children.size());
  if (size == 0 || gaps_ + gaps > kGapsInAllMax) return std::make_shared<PlainModule>();
  gaps_ += gaps;
  return std::make_shared<torch::nn::ModuleListImpl>();
}

void ModuleTree::build(Node& node) {
  if (auto* list = node.module->as<torch::nn::ModuleListImpl>()) {
    const size_t size = list_size(node.children);
    for (size_t i = 0; i < size; ++i) {
      const auto child = node.children.find(std::to_string(i));
      const bool is_gap = child == node.children.end();
      auto module = is_gap ? std::make_shared<PlainModule>() : make(child->second);
      if (!is_gap) child->second.module = module.get();
      list->push_back(std::move(module));
    }
  } else {
    for (const std::string& name : node.order) {
      Node& child = node.children.find(name)->second;
      child.module = node.module->register_module(name, make(child)).get();
    }
  }
  for (auto& [name, child] : node.children) build(child);
}

torch::nn::Module& ModuleTree::at(std::string_view path) const {
  const Node* node = &root_;
  while (!path.empty()) {
    const auto child = node->children.find(take_part(path));
    if (child == node->children.end()) break;
    node = &child->second;
  }
  return *node->module;
}

std::set<std::string, std::less<>> ModuleTree::blocks() const {
  std::set<std::string, std::less<>> blocks;
  collect_blocks(root_, "", blocks);
  return blocks;
}

void ModuleTree::collect_blocks(const Node& node, const std::string& name,
                                std::set<std::string, std::less<>>& blocks) const {
  const bool is_list = node.module->as<torch::nn::ModuleListImpl>() != nullptr;
  for (const auto& [part, child] : node.children) {
    const std::string path = name.empty() ? part : name + "." + part;
    if (is_list) {
      blocks.insert(path);
    } else {
      collect_blocks(child, path, blocks);
    }
  }
}

}  // namespace muster
