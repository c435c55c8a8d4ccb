// The lines of a shell script as its shell counts them, as far as that can be known without one. Pure.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

struct ScriptLine {
  int number = 0;  // of its first line in the file
  std::string text;
  bool is_in_block = false;  // only a shell can decide whether and how often it runs
};

// Without comments, blank lines and here-documents ("<<EOF"); lines that end with a backslash are joined.
std::vector<ScriptLine> LogicalLines(std::string_view content);

// Whether the byte may be part of a variable's name.
bool IsNameByte(char c);
bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words);

}  // namespace muster::client
