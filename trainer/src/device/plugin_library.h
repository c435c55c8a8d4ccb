// Finding and loading libmuster_trainer_NAME.so, and refusing what was built for something else.
// Without LibTorch, so that a plug-in for another one can be refused before it does harm.
#pragma once

#include <string>
#include <vector>

#include "muster/device/device_plugin.h"

namespace muster {

// A library that was loaded; it stays until the process ends.
struct LoadedPlugin {
  const MusterDeviceTable* table = nullptr;
  std::string path;  // as it was found
};

// The directories that are searched before the system's own places: those of MUSTER_PLUGIN_PATH,
// then the executable's.
std::vector<std::string> plugin_directories();

// Loads the plug-in for a program that was compiled with `torch_version` ("2.13.0"). Throws
// DeviceError that names the file, what was met and what was expected: no such file in any of the
// places, another ABI, another minor version of LibTorch, a library that cannot be loaded or is no
// plug-in, a table that lacks a function or bears another name.
LoadedPlugin load_device_plugin(const std::string& name, const std::string& torch_version,
                                const std::vector<std::string>& directories);

// What of a table cannot be used by such a program; empty: nothing.
std::string fault_of_table(const MusterDeviceTable& table, const std::string& name,
                           const std::string& torch_version);

}  // namespace muster
