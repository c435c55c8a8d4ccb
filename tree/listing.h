// Collects problems with the entries of a tree: names the first ten, and counts all. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::tree {

class Listing {
 public:
  static constexpr size_t kShownMax = 10;

  // "PATH: why"; bytes of the path that could disturb a terminal are escaped.
  void Add(std::string_view path, std::string_view why);
  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  const std::vector<std::string>& first() const { return first_; }
  // One line each, indented, and "… and 5 more".
  std::string Text() const;

 private:
  std::vector<std::string> first_;
  uint64_t count_ = 0;
};

}  // namespace muster::tree
