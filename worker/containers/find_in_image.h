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

// Which of /dev, /proc and /sys is there and is not a directory itself; empty: none. The runtime joins
// "dev/ptmx" and others to the root without a look at links, as root, so a link here leads it to any
// directory of the node. What is not there, the runtime makes.
std::string SystemPathThatLeadsAway(int root);

// `path` as the kernel would find it there, free of links, "." and "..": what is led to it follows none.
// Components that are not there stay as they are, and so does all below one of `mounted`, where another
// file system begins. nullopt: links lead in a circle, or ".." of one out of such a place.
std::optional<std::string> PathWithoutLinks(int root, const std::string& path,
                                            const std::set<std::string>& mounted = {});

// As execvp finds `name`: with a slash it is a path from `workdir`. Empty: there is no such program.
std::string FindProgramIn(int root, std::string_view search_path, const std::string& workdir,
                          const std::string& name);

}  // namespace muster::worker
