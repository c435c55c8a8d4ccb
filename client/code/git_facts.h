// Which commit a directory is of. Runs `git`, which is asked to run nothing that the repository's
// own configuration names: a directory that came from elsewhere may have a hostile one.
#pragma once

#include <string>

namespace muster::client {

struct GitFacts {
  std::string commit;  // 40 or 64 hex digits; empty: not known, as is `dirty` then
  bool dirty = false;  // something below the directory differs from it, or is not known to git
};

// Nothing where there is no git, no repository or no commit, the repository is another user's, or
// git takes longer than some seconds.
GitFacts ReadGitFacts(const std::string& directory);

}  // namespace muster::client
