// What a job may not mount, by what is mounted there on the node: the kernel's own files, in which one
// job's processes reach another's, and the worker's directories under another name.
#pragma once

#include <string>
#include <vector>

namespace muster::worker {

// Why `source` (absolute, without links) and what is mounted below it may not be shown to a job; empty:
// it may. `hidden`: directories of the worker's. Reads /proc/self/mountinfo.
std::string WhyNoSource(const std::string& source, const std::vector<std::string>& hidden);

// The same for a given text of /proc/PID/mountinfo.
std::string WhyNoSource(const std::string& mountinfo, const std::string& source,
                        const std::vector<std::string>& hidden);

}  // namespace muster::worker
