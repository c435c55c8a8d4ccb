// Ascend NPUs: from the driver's device files, with what npu-smi and hccn.conf report of them. Blocks for as
// long as npu-smi takes, at most kNpuSmiMs; it is asked only if there is a device. Both decoders are pure and
// skip what they do not understand: a device without a model is known only by its index.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "worker/devices/device_discovery.h"

namespace muster::worker {

inline constexpr int kNpuSmiMs = 10'000;

// `root` precedes /dev/davinciN and /etc/hccn.conf; npu-smi is looked for in PATH.
std::vector<FoundDevice> FindAscendNpus(const std::string& root);

// The table of `npu-smi info`: model and memory by index.
std::map<uint32_t, FoundDevice> ParseNpuSmi(std::string_view text);
// hccn.conf ("address_0=192.168.100.101"): IP addresses by index.
std::map<uint32_t, std::string> ParseHccnConf(std::string_view text);

}  // namespace muster::worker
