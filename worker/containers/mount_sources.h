// What a job may not mount, judged by what is mounted there on the node: the kernel's own files, through
// which jobs' processes reach each other, and the worker's directories under another name.
#pragma once

#include <string>
#include <vector>

namespace muster::worker {

// Why a job may not see `source` (absolute, without links) and what is mounted below it; empty: it may.
// `hidden`: the worker's directories. Reads /proc/self/mountinfo.
std::string WhyNoSource(const std::string& source, const std::vector<std::string>& hidden);

// The same for a given text of /proc/PID/mountinfo.
std::string WhyNoSource(const std::string& mountinfo, const std::string& source,
                        const std::vector<std::string>& hidden);

}  // namespace muster::worker
