// The only YAML reader, a strict one: for job files, jobctl's configuration and accelerate's. Pure.
//
// YAML lets a file mean something other than it seems to; each of these is an error here, with its
// position and the fix: duplicate keys, `<<`, anchors and aliases, tags, several documents, bare
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

  // Null if this is not a map or has no such key.
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

// The document; everything wrong with it is appended to `problems`. `lenient`: a foreign file,
// where yes/no are booleans and leading zeros are accepted.
YamlNode ParseYaml(std::string_view content, std::vector<YamlProblem>* problems,
                   bool lenient = false);

// "file:line:column: text" lines in file order.
std::string FormatProblems(std::string_view file, std::vector<YamlProblem> problems);

}  // namespace muster::client
