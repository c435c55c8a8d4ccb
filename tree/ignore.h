// Determines what .gitignore and .musterignore leave out of a tree, by git's rules for untracked
// files. Lines of deeper directories take precedence, in one directory those of .musterignore, in
// one file the later ones. Nothing below an ignored directory can be re-included. Unlike git: an
// ignored file that git tracks nevertheless is left out too, and neither .git/info/exclude nor the
// user's core.excludesFile is read. Pure, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "tree/ignore_pattern.h"

namespace muster::tree {

inline constexpr size_t kIgnoreFileBytesMax = 1 << 20;

std::vector<IgnorePattern> ParseIgnoreFile(std::string_view content);

// For a walk: directories are entered and left in turn.
class IgnoreRules {
 public:
  // `directory` is "" for the root. The arguments are the contents of its files, "" if it has none.
  void Enter(std::string_view directory, std::string_view gitignore, std::string_view musterignore);
  void Leave() { levels_.pop_back(); }

  // `path` is below the directory that was entered last, which is not ignored.
  bool Ignores(std::string_view path, bool is_directory) const;

 private:
  struct Level {
    size_t base_bytes = 0;  // of the directory's path with its slash
    std::vector<IgnorePattern> patterns;
  };
  std::vector<Level> levels_;
};

}  // namespace muster::tree
