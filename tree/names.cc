#include "tree/names.h"

#include <algorithm>

#include "common/text/relative_path.h"
#include "common/text/utf8.h"

namespace muster::tree {

std::string_view PathProblem(std::string_view path) {
  if (path.empty()) return "has no name";
  if (path.size() > kPathBytesMax) return "is a path of more than 4,096 bytes";
  if (path.front() == '/') return "is absolute";
  if (!common::StaysInside(path)) return "has an empty, \".\" or \"..\" component or a NUL byte";
  if (!common::IsUtf8(path)) return "has a name that is not UTF-8";
  size_t depth = 0;
  for (size_t at = 0; at <= path.size(); ++depth) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end - at > kNameBytesMax) return "has a name of more than 255 bytes";
    at = end + 1;
  }
  if (depth > kDepthMax) return "is more than 128 directories deep";
  return {};
}

bool PathLess(std::string_view a, std::string_view b) {
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (right == b.end()) return false;
  if (left == a.end()) return true;
  const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
  return rank(*left) < rank(*right);
}

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace muster::tree
