// The rules for paths in a tree, and their order. Pure, any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace muster::tree {

// limit: trees: a path; the tree is refused
inline constexpr size_t kPathBytesMax = 4'096;
inline constexpr size_t kNameBytesMax = 255;
// limit: trees: components of a path; the tree is refused
inline constexpr size_t kDepthMax = 128;  // components of a path

// Why a tree cannot contain the path, or empty. "is not UTF-8", "has a \"..\" component" …
std::string_view PathProblem(std::string_view path);

// Byte order in which '/' comes before everything else: a directory is followed by everything below
// it, which is the order of a walk that sorts the names in each directory.
bool PathLess(std::string_view a, std::string_view b);

// "a/b" of "a/b/c"; "" of "a".
std::string_view ParentOf(std::string_view path);
// "c" of "a/b/c".
std::string_view NameOf(std::string_view path);

}  // namespace muster::tree
