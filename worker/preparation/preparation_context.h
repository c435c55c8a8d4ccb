// The state that the steps of all preparations of a worker share.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "worker/base/paths.h"
#include "worker/confinement/isolation.h"
#include "worker/confinement/run_as.h"
#include "worker/containers/container_tools.h"
#include "worker/preparation/code_cache.h"
#include "worker/preparation/object_cache.h"
#include "worker/preparation/turns.h"

namespace muster::worker {

struct PreparationSetup {
  std::string node;
  Paths paths;
  RunAs run_as;
  Isolation isolation;
  std::set<std::string> device_kinds;
  std::string shim_binary;
  ContainerTools containers = {};
  uint64_t cache_bytes = kCodeCacheBytes;
  // limit: setup: one setup; the attempt fails
  int64_t setup_timeout_ms = 3'600'000;
};

struct PreparationContext {
  PreparationContext(PreparationSetup of, FetchObject fetch)
      : setup(std::move(of)),
        cache(setup.paths, {.node = setup.node,
                            .for_others = setup.run_as.IsOther(),
                            .bytes_max = setup.cache_bytes}),
        objects(setup.paths.CodeDir() + "/new", std::move(fetch)) {}

  const PreparationSetup setup;
  CodeCache cache;
  ObjectCache objects;
  Turns turns;
};

}  // namespace muster::worker
