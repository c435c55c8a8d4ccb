// The one strict YAML reader: job files, jobctl's configuration and accelerate's all pass through
// it. Pure.
//
// YAML lets a file mean something else than it seems to; here each of these is an error with its
// place and the fix: duplicate keys, `<<`, anchors and aliases, tags, several documents, bare
// yes/no/on/off, numbers with a leading zero, tabs, more than 16 levels or 20,000 values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::client {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  std::string text;     // of a scalar
  bool quoted = false;  // "1" is a string, 1 may be a number
  int line = 0;         // from 1; 0 and less: not from a file
  int column = 0;
  std::vector<YamlNode> items;
  std::vector<Entry> entries;

  // Null when this is no map or has no such key.
  const YamlNode* Find(std::string_view key) const;
};
struct YamlNode::Entry {
  std::string key;
  int line = 0;
  int column = 0;
  YamlNode value;
};

struct YamlProblem {
  int line = 0;
  int column = 0;
  std::string text;
};

// The document, with everything wrong with it appended to `problems`.
// `lenient`: a foreign file, in which yes/no are booleans and leading zeros pass.
YamlNode ParseYaml(std::string_view content, std::vector<YamlProblem>* problems,
                   bool lenient = false);

// "file:line:column: text" lines in file order.
std::string FormatProblems(std::string_view file, std::vector<YamlProblem> problems);

}  // namespace muster::client
