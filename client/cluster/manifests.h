// The manifests of deploy/kubernetes/base, built in: the output of `kubectl kustomize`, without its common
// label.
#pragma once

#include <string_view>

namespace muster::client::cluster {

std::string_view KubernetesManifests();

}  // namespace muster::client::cluster
