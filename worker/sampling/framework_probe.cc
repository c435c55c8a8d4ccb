#include "worker/sampling/framework_probe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;

// limit: samples: a process's map; its versions stay unknown
constexpr size_t kMapsBytesMax = 2 << 20;  // a process with torch has about 500 KiB
constexpr size_t kVersionFileBytesMax = 4'096;
constexpr size_t kVersionBytesMax = 32;
constexpr size_t kDirectoryBytesMax = 1'024;

// The beginning of a regular file; empty for anything else.
std::string ReadBeginning(const common::UniqueFd& file, size_t bytes_max) {
  std::string text(bytes_max, '\0');
  size_t size = 0;
  while (file.valid() && size < bytes_max) {
    const ssize_t count = read(file.get(), text.data() + size, bytes_max - size);
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

// A small file of the framework, where the process sees it. Never waits for a FIFO's writer.
std::string ReadInstalled(int root, const std::string& path) {
  // Inspected before it is opened, because the job chose the path, and opening some devices has
  // side effects.
  const absl::StatusOr<common::UniqueFd> found = common::OpenInRoot(root, path);
  struct stat info {};
  if (!found.ok() || fstat(found->get(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  const common::UniqueFd file(
      open(StrCat("/proc/self/fd/", found->get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return ReadBeginning(file, kVersionFileBytesMax);
}

bool IsVersion(std::string_view text) {
  return !text.empty() && text.size() <= kVersionBytesMax &&
         std::isdigit(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '+' || c == '-' || c == '_';
         });
}

std::string_view LineOfText(std::string_view text, size_t at) {
  return text.substr(at, text.find('\n', at) - at);
}

// The text in quotes of the line that begins with `name`; empty: none, or not a version.
std::string Quoted(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size(); at += LineOfText(text, at).size() + 1) {
    const std::string_view line = LineOfText(text, at);
    if (line.substr(0, name.size()) != name) continue;
    const size_t open = line.find('\'');
    const size_t close = open == std::string_view::npos ? open : line.find('\'', open + 1);
    if (close == std::string_view::npos) return "";
    const std::string_view quoted = line.substr(open + 1, close - open - 1);
    return IsVersion(quoted) ? std::string(quoted) : "";
  }
  return "";
}

// "cu124": "12.4", "cpu": "cpu".
std::string ToolkitOf(std::string_view version) {
  const size_t plus = version.find('+');
  if (plus == std::string_view::npos) return "";
  const std::string_view local = version.substr(plus + 1);
  if (local.substr(0, 3) == "cpu") return "cpu";
  if (local.substr(0, 2) != "cu") return "";
  const std::string_view digits = local.substr(2, local.find_first_not_of("0123456789", 2) - 2);
  if (digits.size() < 3 || digits.size() > 4) return "";
  return StrCat(digits.substr(0, digits.size() - 1), ".", digits.substr(digits.size() - 1));
}

// "libcudart-9335f6a2.so.12": "12".
std::string CudartOf(std::string_view file) {
  const size_t at = file.find(".so.");
  if (file.substr(0, 9) != "libcudart" || at == std::string_view::npos) return "";
  const std::string_view rest = file.substr(at + 4);
  // Two numbers at most: "11.8.89" is 11.8.
  size_t end = rest.find_first_not_of("0123456789.");
  const size_t first = rest.find('.');
  if (first != std::string_view::npos) end = std::min(end, rest.find('.', first + 1));
  const std::string_view version = rest.substr(0, end);
  return IsVersion(version) ? std::string(version) : "";
}

bool IsTorchLibrary(std::string_view file) {
  return file == "libtorch_cpu.so" || file == "libtorch.so" || file == "libtorch_python.so";
}

}  // namespace

MappedFramework FindMapped(std::string_view maps) {
  MappedFramework found;
  for (size_t at = 0; at < maps.size(); at += LineOfText(maps, at).size() + 1) {
    const std::string_view line = LineOfText(maps, at);
    const size_t path_at = line.find('/');
    const size_t name_at = line.rfind('/');
    if (path_at == std::string_view::npos) continue;
    const std::string_view file = line.substr(name_at + 1);
    if (found.cudart.empty()) found.cudart = CudartOf(file);
    if (!found.directory.empty() || !IsTorchLibrary(file)) continue;
    // …/torch/lib/libtorch_cpu.so
    const std::string_view folder = line.substr(path_at, name_at - path_at);
    const size_t parent = folder.rfind('/');
    if (parent == std::string_view::npos || folder.size() > kDirectoryBytesMax) continue;
    found.directory = std::string(folder.substr(0, parent));
  }
  return found;
}

FrameworkVersions ParseVersionPy(std::string_view text) {
  FrameworkVersions versions;
  const std::string version = Quoted(text, "__version__");
  if (version.empty()) return versions;
  versions.framework = StrCat("torch ", version);
  versions.toolkit = Quoted(text, "cuda:");
  if (versions.toolkit.empty()) versions.toolkit = Quoted(text, "cuda =");
  if (versions.toolkit.empty()) versions.toolkit = ToolkitOf(version);
  return versions;
}

FrameworkVersions ParseBuildVersion(std::string_view text) {
  const std::string_view version = LineOfText(text, 0);
  if (!IsVersion(version)) return {};
  return {StrCat("torch ", version), ToolkitOf(version)};
}

std::optional<FrameworkVersions> ProbeFramework(pid_t pid, const RankAccount& account,
                                                const std::string& proc) {
  const std::string process = StrCat(proc, "/", pid);
  const common::UniqueFd maps(open(StrCat(process, "/maps").c_str(), O_RDONLY | O_CLOEXEC));
  const MappedFramework mapped = FindMapped(ReadBeginning(maps, kMapsBytesMax));
  if (mapped.directory.empty()) return std::nullopt;
  const common::UniqueFd root(open(StrCat(process, "/root").c_str(), O_PATH | O_CLOEXEC));
  if (!root.valid()) return std::nullopt;
  // The job chose the name in the map: it may be a link to a file that only this process may read.
  const ActAs acting(account);
  FrameworkVersions versions =
      ParseVersionPy(ReadInstalled(root.get(), StrCat(mapped.directory, "/version.py")));
  if (versions.framework.empty()) {
    versions =
        ParseBuildVersion(ReadInstalled(root.get(), StrCat(mapped.directory, "/build-version")));
  }
  if (versions.framework.empty()) versions.framework = "torch";
  if (versions.toolkit.empty()) versions.toolkit = mapped.cudart;
  return versions;
}

}  // namespace muster::worker
