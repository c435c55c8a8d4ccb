// Writes the entries of a manifest into an empty directory: all of them, verified, or none. The manifest may be
// untrusted (Decode has checked it); nothing is ever written outside of the directory, whatever other processes
// do in it. One thread; blocks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tree/manifest.h"

namespace muster::tree {

struct TreeOwner {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct TreeTarget {
  int directory = -1;  // open and empty; the caller sets its mode and owner
  std::string path;    // for messages
  mode_t umask = 022;  // files 0644, or 0755 if executable, and directories 0755, without these
  std::optional<TreeOwner> owner;  // of everything that is written; needs CAP_CHOWN
  std::function<bool()> stopped;   // asked before each entry; true: CANCELLED. Optional
};

// Writes the content of a file, given by its position in the manifest, to an open, empty file.
using FillFile = std::function<absl::Status(size_t entry, int fd)>;

// Nothing is synced; the caller decides. While it writes, directories have mode 0700 and the
// caller's owner; files have their owner before they have content. After an error, everything that
// was written is removed. RESOURCE_EXHAUSTED names the needed and the free space; ALREADY_EXISTS
// the file in the way, which stays.
absl::Status WriteTree(const Manifest& manifest, const TreeTarget& target, const FillFile& fill);

}  // namespace muster::tree
