// The files that a process has open, by the names that /proc shows. Reads links and never opens their
// targets, so that a hanging file system does not block. Any thread.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

namespace muster::worker {

// The target of a link; empty: it cannot be read.
std::string LinkTarget(const std::string& link);

// Calls each(link, target) for the descriptors of `process` ("/proc/7"), for at most `left` of them, which it
// lowers. Makes no call if there is no such process, or we may not see it.
void ForEachDescriptor(
    const std::string& process, size_t& left,
    const std::function<void(const std::string& link, const std::string& target)>& each);

// Whether the descriptor behind this link is of a file that is open for writing; fills in `info` of
// the file.
bool IsOpenForWriting(const std::string& link, struct stat* info);

}  // namespace muster::worker
