// Looks into a root file system that is not this process's, as the kernel would for a process in it:
// links stay inside. Any thread that may block.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::worker {

bool IsDirectoryIn(int root, const std::string& path);

// The first of /dev, /proc and /sys that exists and is not itself a directory; empty: none. The runtime,
// which is root, appends "dev/ptmx" and others to the image's root without checking for links, so a link
// here could lead it to any directory of the node. The runtime makes those that are missing.
std::string SystemPathThatLeadsAway(int root);

// `path` as the kernel would resolve it in that root, without links, "." and "..": a lookup of the result
// follows no link. Components that do not exist stay as they are, and so does everything below a path of
// `mounted`, where another file system begins. nullopt: the links form a loop, or a ".." leaves such a
// mount.
std::optional<std::string> PathWithoutLinks(int root, const std::string& path,
                                            const std::set<std::string>& mounted = {});

// As execvp finds `name`: with a slash it is a path from `workdir`. Empty: there is no such program.
std::string FindProgramIn(int root, std::string_view search_path, const std::string& workdir,
                          const std::string& name);

}  // namespace muster::worker
