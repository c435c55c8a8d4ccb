// The manifests of deploy/kubernetes/base, built in: what `kubectl kustomize` makes of them, but for its
// common label.
#pragma once

#include <string_view>

namespace muster::client::cluster {

std::string_view KubernetesManifests();

}  // namespace muster::client::cluster
