// Collectives of the device: a c10d backend that runs them on a stream of its own, with Gloo.
#pragma once

#include <muster/device/device_plugin.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace remote {

c10::intrusive_ptr<c10d::Backend> make_collectives(const MusterBackendRequest& request);

}  // namespace remote
