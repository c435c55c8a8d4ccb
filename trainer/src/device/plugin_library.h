// Finds and loads libmuster_trainer_NAME.so, and rejects incompatible plug-ins. Without LibTorch,
// so that a plug-in for another LibTorch is rejected before it does harm.
#pragma once

#include <string>
#include <vector>

#include "muster/device/device_plugin.h"

namespace muster {

// A loaded library; it stays loaded until the process exits.
struct LoadedPlugin {
  const MusterDeviceTable* table = nullptr;
  std::string path;  // as found
};

// The directories that are searched before the dynamic loader's path: those of MUSTER_PLUGIN_PATH,
// then the executable's.
std::vector<std::string> plugin_directories();

// Loads the plug-in for a program compiled with `torch_version` ("2.13.0"). Throws DeviceError
// naming the file and the expected and actual values: file not found, different ABI, different
// minor version of LibTorch, a library that cannot be loaded or is not a plug-in, a table that
// lacks a function or has another name.
LoadedPlugin load_device_plugin(const std::string& name, const std::string& torch_version,
                                const std::vector<std::string>& directories);

// Why such a program cannot use the table; empty if it can.
std::string fault_of_table(const MusterDeviceTable& table, const std::string& name,
                           const std::string& torch_version);

}  // namespace muster
