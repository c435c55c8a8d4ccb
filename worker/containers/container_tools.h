// The programs with which this node runs ranks in images: found when the worker starts, not trusted
// afterwards.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/event.pb.h"
#include "worker/base/bounded_command.h"

namespace muster::worker {

// Paths; empty: it is not there.
struct ContainerTools {
  std::string runc;    // runs containers
  std::string umoci;   // unpacks layers
  std::string skopeo;  // fetches from registries …
  std::string podman;  // … as does this, which also has its own image storage
};

struct FoundContainers {
  ContainerTools tools;
  v1::ContainerFacts facts;
};
// Blocks for some milliseconds the first time, until they have printed their versions (tool_versions.h).
FoundContainers FindContainers(const std::string& versions_path);

// The same for programs that were found. `version` returns that of a program by its path. Pure.
struct ContainerHost {
  ContainerTools tools;
  bool is_root = false;
  bool may_mount = false;    // holds CAP_SYS_ADMIN
  bool has_overlay = false;  // the kernel can lay one directory over another
  bool has_docker = false;
  bool has_apptainer = false;
};
v1::ContainerFacts DescribeContainers(
    const ContainerHost& host, const std::function<std::string(const std::string&)>& version);

// "umoci version 0.4.7+ds-3" → "0.4.7"; empty: there is none in it.
std::string VersionIn(std::string_view text);

// A tool's command. Of the worker's environment it gets only the variables that it needs to find its own
// files and the network.
BoundedCommand ToolCommand(std::vector<std::string> words);

}  // namespace muster::worker
