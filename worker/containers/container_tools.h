// The programs by which this node runs ranks in images: found at the worker's start, foreign from then
// on.
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
  std::string podman;  // … as this does, which also has images of its own
};

struct FoundContainers {
  ContainerTools tools;
  v1::ContainerFacts facts;
};
// Blocks for the milliseconds in which they tell their versions.
FoundContainers FindContainers();

// The same from what was found. `version` of a program by its path; pure.
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

// A tool's command: no variable of the worker's environment but those that it finds its own files
// and the network by.
BoundedCommand ToolCommand(std::vector<std::string> words);

}  // namespace muster::worker
