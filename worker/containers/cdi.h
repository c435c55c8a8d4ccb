// The Container Device Interface, specification 0.5 to 0.8: what a device needs in a container, as the
// vendor's tool recorded it on the node (/etc/cdi/nvidia.json). The node's operator owns these files;
// they are bounded and checked all the same. Pure except for ReadCdi; any thread.
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
  CdiEdits common;   // for a container with any of its devices
  std::map<std::string, CdiEdits> devices;
};

// INVALID_ARGUMENT: names the error in it.
absl::StatusOr<CdiSpec> ParseCdi(std::string_view json);

// The first specification of `kind` in these directories. NOT_FOUND: there is none.
absl::StatusOr<CdiSpec> ReadCdi(std::string_view kind,
                                const std::vector<std::string>& directories = {"/etc/cdi",
                                                                               "/var/run/cdi"});

}  // namespace muster::worker
