// An image that is unpacked on this node, as ranks are started in it.
#pragma once

#include <string>

#include "worker/containers/image_manifest.h"

namespace muster::worker {

struct ReadyImage {
  std::string name;    // as the job has it
  std::string digest;  // what that stood for: "sha256:…"
  std::string root;    // its root file system, which belongs to the worker: never written to
  ImageConfig config;
};

}  // namespace muster::worker
