// Loads plug-ins with dlopen; see plugin_library.h.
#include "device/plugin_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr const char* kFunction = "muster_device_plugin";
constexpr const char* kLabel = "muster-device-plugin abi=";

std::string minor_version(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

std::string fault_of_versions(uint32_t abi, const std::string& torch,
                              const std::string& own_torch) {
  if (abi != MUSTER_DEVICE_ABI) {
    return "it has version " + std::to_string(abi) +
           " of the device function table, and this program has version " +
           std::to_string(MUSTER_DEVICE_ABI) +
           ": build both with the same release of the Muster trainer SDK";
  }
  if (minor_version(torch) != minor_version(own_torch)) {
    return "it was built for LibTorch " + torch + ", and this program for LibTorch " + own_torch +
           ": build the plug-in against LibTorch " + minor_version(own_torch);
  }
  return "";
}

// Why the label in the file makes the plug-in incompatible; "" if it does not, or if there is no
// label.
std::string fault_of_label(const std::string& path, const std::string& own_torch) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t place = bytes.find(kLabel);
  if (place == std::string::npos) return "";
  std::istringstream label(
      bytes.substr(place + std::char_traits<char>::length(kLabel), 64).c_str());
  uint32_t abi = 0;
  std::string torch;
  label >> abi >> torch;
  const size_t version = torch.find('=') + 1;
  return fault_of_versions(abi, torch.substr(version), own_torch);
}

// The first required function that is missing; null if there is none.
const char* missing_function(const MusterDeviceTable& table) {
  if (table.count == nullptr) return "count";
  if (table.set_current == nullptr) return "set_current";
  if (table.series == nullptr) return "series";
  if (table.collective_dtypes == nullptr) return "collective_dtypes";
  if (table.seed == nullptr) return "seed";
  if (table.random_state == nullptr) return "random_state";
  if (table.set_random_state == nullptr) return "set_random_state";
  if (table.memory == nullptr) return "memory";
  return nullptr;
}

std::string file_name(const std::string& name) { return "libmuster_trainer_" + name + ".so"; }

// The first file that exists in the directories; else the bare name, for the dynamic loader's
// search.
std::string find_file(const std::string& name, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const std::filesystem::path path = std::filesystem::path(directory) / file_name(name);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return file_name(name);
}

std::string places(const std::vector<std::string>& directories) {
  std::string text;
  for (const std::string& directory : directories) text += directory + ", ";
  return text + "the system's library directories";
}

}  // namespace

std::vector<std::string> plugin_directories() {
  std::vector<std::string> directories;
  if (const char* list = std::getenv("MUSTER_PLUGIN_PATH"); list != nullptr) {
    std::istringstream stream(list);
    for (std::string directory; std::getline(stream, directory, ':');) {
      if (!directory.empty()) directories.push_back(directory);
    }
  }
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) directories.push_back(executable.parent_path().string());
  return directories;
}

std::string fault_of_table(const MusterDeviceTable& table, const std::string& name,
                           const std::string& torch_version) {
  // Check the version first: the rest of a table of another version must not be read.
  const char* const torch = table.torch_version == nullptr ? "unknown" : table.torch_version;
  std::string fault = fault_of_versions(table.abi_version, torch, torch_version);
  if (!fault.empty()) return fault;
  if (table.name == nullptr || table.name != name) {
    return std::string("its table is for device '") + (table.name == nullptr ? "" : table.name) +
           "': the file name must match";
  }
  if (const char* function = missing_function(table); function != nullptr) {
    return std::string("its table has no ") + function +
           ": only functions marked so in device_plugin.h may be null";
  }
  return "";
}

LoadedPlugin load_device_plugin(const std::string& name, const std::string& torch_version,
                                const std::vector<std::string>& directories) {
  if (name.find('/') != std::string::npos) {
    throw DeviceError("device '" + name + "': not a valid name, as in " + file_name("NAME"));
  }
  const std::string path = find_file(name, directories);
  const bool found = path != file_name(name);
  const std::string start = "device '" + name + "': the plug-in " + path;
  if (found) {
    const std::string fault = fault_of_label(path, torch_version);
    if (!fault.empty()) throw DeviceError(start + " is incompatible: " + fault);
  }
  // RTLD_GLOBAL: the libraries that a plug-in loads must find each other's symbols, as under
  // Python.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const std::string reason = ::dlerror();
    throw DeviceError(start + (found ? " cannot be loaded: " : " was not found: ") + reason +
                      (found ? " (a missing library: add its directory to LD_LIBRARY_PATH; an "
                               "undefined symbol: it was built for another LibTorch)"
                             : "; searched " + places(directories) +
                                   ": add its directory to MUSTER_PLUGIN_PATH"));
  }
  const auto function = reinterpret_cast<MusterDevicePluginFunction>(::dlsym(library, kFunction));
  const MusterDeviceTable* const table = function == nullptr ? nullptr : function();
  if (table == nullptr) {
    throw DeviceError(start + " is not a device plug-in: it " +
                      (function == nullptr ? "does not export " : "has no table in ") + kFunction +
                      "() (see docs/device-plugins.md)");
  }
  const std::string fault = fault_of_table(*table, name, torch_version);
  if (!fault.empty()) throw DeviceError(start + " is incompatible: " + fault);
  return {table, path};
}

}  // namespace muster
