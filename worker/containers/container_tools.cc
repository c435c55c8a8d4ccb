#include "worker/containers/container_tools.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/containers/tool_versions.h"

namespace muster::worker {
namespace {

constexpr int kVersionMs = 5'000;
constexpr size_t kVersionBytesMax = 4'096;
constexpr size_t kVersionTextMax = 24;
// limit: images: a command that fetches or unpacks one; it is killed
constexpr int kFetchMs = 2 * 3'600'000;  // as long as a large image may take over a slow line
constexpr size_t kFetchOutputMax = 64 << 10;
constexpr char kUsualPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr const char* kPassedOn[] = {"HOME",
                                     "XDG_RUNTIME_DIR",
                                     "TMPDIR",
                                     "HTTPS_PROXY",
                                     "HTTP_PROXY",
                                     "NO_PROXY",
                                     "https_proxy",
                                     "http_proxy",
                                     "no_proxy",
                                     "SSL_CERT_FILE",
                                     "SSL_CERT_DIR",
                                     "REGISTRY_AUTH_FILE",
                                     "CONTAINERS_CONF",
                                     "CONTAINERS_REGISTRIES_CONF"};

std::string SearchPath() {
  const char* path = getenv("PATH");
  return common::StrCat(path == nullptr ? "" : path, ":", kUsualPath);
}

std::string FindTool(std::string_view name) {
  for (const absl::string_view directory : absl::StrSplit(SearchPath(), ':')) {
    std::string path = common::StrCat(directory, "/", name);
    if (path.front() == '/' && access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

bool HoldsSysAdmin() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  return syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective >> CAP_SYS_ADMIN & 1) != 0;
}

std::string VersionOf(const std::string& program) {
  const CommandOutput output = RunBounded({program, "--version"}, kVersionMs, kVersionBytesMax);
  return output.problem.empty() ? VersionIn(output.out) : "";
}

std::string Named(std::string_view name, const std::string& version) {
  return version.empty() ? std::string(name) : common::StrCat(name, " ", version);
}

// Why containers cannot run here; empty: they can.
std::string WhyNone(const ContainerHost& host) {
  if (host.tools.runc.empty())
    return "ranks in images: runc is not on the worker's PATH; fix: install it (Debian: runc)";
  if (!host.is_root || !host.may_mount) {
    return common::StrCat("ranks in images: the worker ",
                          host.is_root ? "lacks CAP_SYS_ADMIN" : "is not root",
                          ", so it cannot mount them; fix: run it as root",
                          host.is_root ? " in a privileged container, or outside of one" : "");
  }
  if (!host.has_overlay)
    return "ranks in images: this kernel has no overlay file system; fix: modprobe overlay";
  if (host.tools.umoci.empty()) {
    return "ranks in images: umoci, which unpacks them, is not on the worker's PATH; fix: install "
           "it (Debian: umoci)";
  }
  return {};
}

}  // namespace

std::string VersionIn(std::string_view text) {
  const size_t from = text.find_first_of("0123456789");
  if (from == std::string_view::npos) return {};
  const size_t to = std::min(text.find_first_not_of("0123456789.", from), text.size());
  return std::string(text.substr(from, std::min(to - from, kVersionTextMax)));
}

v1::ContainerFacts DescribeContainers(
    const ContainerHost& host, const std::function<std::string(const std::string&)>& version) {
  v1::ContainerFacts facts;
  const std::string none = WhyNone(host);
  if (!none.empty()) {
    facts.add_lacks(none);
  } else {
    facts.set_runtime(Named("runc", version(host.tools.runc)));
    const std::string umoci = Named("umoci", version(host.tools.umoci));
    const bool has_skopeo = !host.tools.skopeo.empty();
    if (has_skopeo || !host.tools.podman.empty()) {
      const std::string fetcher = has_skopeo ? Named("skopeo", version(host.tools.skopeo))
                                             : Named("podman", version(host.tools.podman));
      facts.set_fetcher(common::StrCat(fetcher, " and ", umoci));
    } else {
      facts.add_lacks(
          "images of registries: neither skopeo nor podman is on the worker's PATH; fix: install "
          "one (Debian: skopeo), or name an oci:DIRECTORY");
    }
    if (host.tools.podman.empty()) {
      facts.add_lacks(
          "images by a local name: podman is not on the worker's PATH; fix: install it, or name "
          "an oci:DIRECTORY");
    }
  }
  if (host.has_docker) {
    facts.add_lacks(
        "docker's own images and engine: not supported; fix: skopeo copy docker-daemon:NAME "
        "oci:DIR, "
        "and name oci:DIR");
  }
  if (host.has_apptainer) {
    facts.add_lacks(
        "apptainer's .sif files and engine: not supported; fix: name the image it came from");
  }
  return facts;
}

FoundContainers FindContainers(const std::string& versions_path) {
  FoundContainers found;
  found.tools = {.runc = FindTool("runc"),
                 .umoci = FindTool("umoci"),
                 .skopeo = FindTool("skopeo"),
                 .podman = FindTool("podman")};
  const auto filesystems = common::ReadFile("/proc/filesystems", 64 << 10);
  const ContainerHost host{
      .tools = found.tools,
      .is_root = geteuid() == 0,
      .may_mount = HoldsSysAdmin(),
      .has_overlay = filesystems.ok() && filesystems->find("\toverlay\n") != std::string::npos,
      .has_docker = !FindTool("docker").empty(),
      .has_apptainer = !FindTool("apptainer").empty()};
  ToolVersions versions(versions_path, VersionOf);
  found.facts =
      DescribeContainers(host, [&versions](const std::string& tool) { return versions.Of(tool); });
  versions.Save();
  return found;
}

BoundedCommand ToolCommand(std::vector<std::string> words) {
  BoundedCommand command;
  command.program = words.front();
  command.argv = std::move(words);
  command.env = {common::StrCat("PATH=", SearchPath())};
  for (const char* name : kPassedOn) {
    if (const char* value = getenv(name)) command.env.push_back(common::StrCat(name, "=", value));
  }
  command.workdir = "/";
  command.timeout_ms = kFetchMs;
  command.bytes_max = kFetchOutputMax;
  return command;
}

}  // namespace muster::worker
