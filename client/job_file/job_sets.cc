#include "client/job_file/job_sets.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

// Gives one position to everything that a --set wrote.
void Place(int line, YamlNode* node) {
  node->line = line;
  node->column = 0;
  for (YamlNode& item : node->items) Place(line, &item);
  for (YamlNode::Entry& entry : node->entries) {
    entry.line = line;
    Place(line, &entry.value);
  }
}

// The position of the `index`th --set: before every line of the file.
int LineOfSet(size_t index) { return -1 - static_cast<int>(index); }

// Inserts "a.b=value" into the tree, as if it had been written in the file.
void Set(const std::string& set, int line, YamlNode* root, std::vector<YamlProblem>* problems) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems->push_back({line, 0, "write --set KEY=VALUE, like --set resources.processes=4"});
    return;
  }
  // The YAML reader checks the value; a job's texts travel in messages that allow only UTF-8.
  if (!common::IsUtf8Text(std::string_view(set).substr(0, equals))) {
    problems->push_back({line, 0, "the key is not UTF-8 text without control characters"});
    return;
  }
  std::vector<YamlProblem> inner;
  YamlNode value = ParseYaml(set.substr(equals + 1), &inner);
  for (YamlProblem& problem : inner) problems->push_back({line, 0, std::move(problem.text)});
  Place(line, &value);
  // env and labels have names that may contain dots.
  std::string_view left = std::string_view(set).substr(0, equals);
  YamlNode* node = root;
  while (true) {
    const bool open_names = left.starts_with("env.") || left.starts_with("labels.");
    const size_t dot = left.find('.');
    const std::string word(left.substr(0, dot));
    if (node->kind != YamlNode::Kind::kMap)
      *node = YamlNode{YamlNode::Kind::kMap, {}, false, 0, 0, {}, {}};
    auto found = std::find_if(node->entries.begin(), node->entries.end(),
                              [&](const YamlNode::Entry& entry) { return entry.key == word; });
    if (found == node->entries.end()) {
      node->entries.push_back({word, line, 0, {}});
      found = std::prev(node->entries.end());
    }
    node = &found->value;
    if (dot == std::string_view::npos) break;
    left.remove_prefix(dot + 1);
    if (open_names) {
      if (node->kind != YamlNode::Kind::kMap)
        *node = YamlNode{YamlNode::Kind::kMap, {}, false, 0, 0, {}, {}};
      node->entries.push_back({std::string(left), line, 0, {}});
      std::erase_if(node->entries, [&](const YamlNode::Entry& entry) {
        return entry.key == left && &entry != &node->entries.back();
      });
      node = &node->entries.back().value;
      break;
    }
  }
  *node = std::move(value);
}

}  // namespace

void ApplySets(const std::vector<std::string>& sets, YamlNode* root,
               std::vector<YamlProblem>* problems) {
  for (size_t i = 0; i < sets.size(); ++i) Set(sets[i], LineOfSet(i), root, problems);
}

void NameSets(const std::vector<std::string>& sets, std::vector<YamlProblem>* problems) {
  for (YamlProblem& problem : *problems) {
    if (problem.line >= 0) continue;
    problem.text = StrCat("--set ", common::Printable(sets[static_cast<size_t>(-1 - problem.line)]),
                          ": ", problem.text);
    problem.line = 0;
  }
}

}  // namespace muster::client
