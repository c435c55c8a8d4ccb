// Reads the facts of this machine: a few milliseconds for files and limits, at most kAnswerLimitMs
// for each program or name server that does not answer. Main thread. Changes nothing, except that
// ReadMemory creates and removes a cgroup to learn whether it may.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/doctor/facts.h"

namespace muster::client::doctor {

// The range from which a worker takes MASTER_PORT unless it is told otherwise.
inline constexpr uint16_t kMasterPortFirst = 20000;
inline constexpr uint16_t kMasterPortLast = 28999;
inline constexpr int kAnswerLimitMs = 1000;

// `root` precedes every path that is read: "" for this machine, a directory in tests.
// read_devices.cc. `path_variable`: where programs are looked for, as PATH has it.
DeviceFacts ReadDevices(const std::string& root, const std::string& path_variable);
PythonFacts ReadPython(const std::string& path_variable);  // read_python.cc
NetworkFacts ReadNetwork();                                // read_network.cc
ClockFacts ReadClock();                                    // read_resources.cc
// Of `path`, or of its nearest ancestor that exists.
DiskFacts ReadDisk(const std::string& path);
LimitsFacts ReadLimits();
MemoryFacts ReadMemory(const std::string& root);

// The last "Killed process 12 (python)" of a kernel log: records as /dev/kmsg returns them, one
// after another. `uptime_us`: now, on the log's clock.
void FindLastMemoryKill(const std::vector<std::string>& records, int64_t uptime_us,
                        MemoryFacts* facts);

// `program`'s standard output, or nothing with `trouble` set: "does not answer within 1 s". Its
// input and errors are /dev/null.
std::string OutputOf(const std::vector<std::string>& argv, std::string* trouble);

}  // namespace muster::client::doctor
