// The Container Device Interface, specification 0.5 to 0.8: what a device needs in a container, as the
// vendor's tool wrote it down on the node (/etc/cdi/nvidia.json). The node's operator owns these files;
// bounded and checked all the same. Pure but for ReadCdi; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/containers/bundle.h"

namespace muster::worker {

struct CdiEdits {
  std::vector<std::string> env;
  std::vector<BundleMount> mounts;  // devices first
  std::vector<BundleHook> hooks;
};

struct CdiSpec {
  std::string kind;  // "nvidia.com/gpu"
  CdiEdits common;   // of a container that has any of its devices
  std::map<std::string, CdiEdits> devices;
};

// INVALID_ARGUMENT tells what is wrong with it.
absl::StatusOr<CdiSpec> ParseCdi(std::string_view json);

// That of the kind in these directories, the first that is found; NOT_FOUND: there is none.
absl::StatusOr<CdiSpec> ReadCdi(std::string_view kind,
                                const std::vector<std::string>& directories = {"/etc/cdi",
                                                                               "/var/run/cdi"});

}  // namespace muster::worker
