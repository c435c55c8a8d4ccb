// Drivers and toolkits, from the files that they install.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "absl/strings/str_split.h"
#include "client/doctor/machine.h"
#include "client/machine/child_output.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;

constexpr size_t kFileBytesMax = 64 * 1024;

std::string Content(const std::string& path) {
  return common::ReadFile(path, kFileBytesMax).value_or("");
}

// Counts entries of `directory` whose name is `prefix` and a number: "nvidia0", not "nvidiactl".
int CountNumbered(const std::string& directory, std::string_view prefix) {
  const auto names = common::ListDirectory(directory, 100'000);
  if (!names.ok()) return 0;
  return static_cast<int>(std::count_if(names->begin(), names->end(), [&](const auto& name) {
    return name.size() > prefix.size() && name.starts_with(prefix) &&
           std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  }));
}

bool IsVersion(std::string_view word) {
  return word.find('.') != std::string_view::npos &&
         std::all_of(word.begin(), word.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar …": the first version in it.
std::string DriverVersion(const std::string& content) {
  const std::string line = content.substr(0, content.find('\n'));
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    if (IsVersion(common::FromAbsl(word))) return std::string(word);
  }
  return "";
}

// The version that follows the first `name` in `content`.
std::string VersionAfter(const std::string& content, std::string_view name) {
  size_t at = content.find(name);
  if (at == std::string::npos) return "";
  at = content.find_first_of("0123456789", at + name.size());
  if (at == std::string::npos) return "";
  const size_t end = content.find_first_of("\"',; \r\n", at);
  return content.substr(at, end == std::string::npos ? std::string::npos : end - at);
}

// "12.4.1" -> "12.4".
std::string MajorMinor(const std::string& version) {
  const size_t first = version.find('.');
  return version.substr(0, first == std::string::npos ? first : version.find('.', first + 1));
}

std::string CudaToolkit(const std::string& root) {
  const char* home = std::getenv("CUDA_HOME");
  std::vector<std::string> homes = {StrCat(root, "/usr/local/cuda")};
  if (home != nullptr && root.empty()) homes.insert(homes.begin(), home);
  for (const std::string& directory : homes) {
    // {"cuda" : {"name" : "CUDA SDK", "version" : "12.4.1"}, …
    const std::string json = Content(directory + "/version.json");
    if (const size_t cuda = json.find("\"cuda\""); cuda != std::string::npos) {
      return MajorMinor(VersionAfter(json.substr(cuda), "\"version\""));
    }
    // CUDA Version 10.2.89
    const std::string text = VersionAfter(Content(directory + "/version.txt"), "CUDA Version");
    if (!text.empty()) return MajorMinor(text);
  }
  return "";
}

// A toolkit in another place: its compiler prints its release.
std::string ToolkitOfCompiler(const std::string& nvcc) {
  std::string trouble;
  return nvcc.empty() ? "" : VersionAfter(OutputOf({nvcc, "--version"}, &trouble), "release");
}

std::string AscendToolkit(const std::string& root) {
  const std::string base = StrCat(root, "/usr/local/Ascend/");
  for (const char* file : {"ascend-toolkit/latest/version.cfg", "latest/version.cfg",
                           "ascend-toolkit/latest/compiler/version.info"}) {
    const std::string content = Content(base + file);
    for (const char* name : {"toolkit_running_version=", "runtime_running_version=", "Version="}) {
      if (const std::string version = VersionAfter(content, name); !version.empty()) {
        const size_t bracket = version.find(']');
        return version.substr(0, bracket);
      }
    }
  }
  return "";
}

}  // namespace

DeviceFacts ReadDevices(const std::string& root, const std::string& path_variable) {
  DeviceFacts facts;
  facts.nvidia_nodes = CountNumbered(root + "/dev", "nvidia");
  facts.nvidia_driver = DriverVersion(Content(root + "/proc/driver/nvidia/version"));
  facts.cuda_toolkit = CudaToolkit(root);
  if (facts.cuda_toolkit.empty())
    facts.cuda_toolkit = ToolkitOfCompiler(FindInDirectories("nvcc", path_variable));
  facts.has_cuda_compat = common::Exists(root + "/usr/local/cuda/compat/libcuda.so.1");
  facts.ascend_nodes = CountNumbered(root + "/dev", "davinci");
  facts.ascend_driver =
      VersionAfter(Content(root + "/usr/local/Ascend/driver/version.info"), "Version=");
  facts.ascend_toolkit = AscendToolkit(root);
  const auto adapters = common::ListDirectory(root + "/sys/class/infiniband", 10'000);
  facts.has_infiniband = adapters.ok() && !adapters->empty();
  return facts;
}

}  // namespace muster::client::doctor
