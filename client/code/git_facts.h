// Finds the commit of a directory. Runs `git` so that it runs nothing that the repository's own
// configuration names, because a directory from elsewhere may have a hostile one.
#pragma once

#include <string>

namespace muster::client {

struct GitFacts {
  std::string commit;  // 40 or 64 hex digits; empty: not known, as is `dirty` then
  bool dirty = false;  // something below the directory differs from the commit, or is untracked
};

// Empty if there is no git, no repository or no commit, if the repository belongs to another user,
// or if git takes longer than a few seconds.
GitFacts ReadGitFacts(const std::string& directory);

}  // namespace muster::client
