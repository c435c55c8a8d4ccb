// Where an attempt's processes run, once its node is prepared. Any thread; accesses small local
// files.
#pragma once

#include <string>

#include "common/kernel/shim_protocol.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/paths.h"

namespace muster::worker {

struct PreparedPlace {
  std::string setup_dir;   // MUSTER_SETUP_DIR; empty: the job has no setup
  std::string setup_tree;  // the directory in which setup ran, which its results may refer to
};

PreparedPlace PlaceOf(const Paths& paths, const AttemptKey& key);
PreparedPlace PlaceOfSetup(const std::string& entry);

// The one function through which the setup command and all ranks of a job pass: everything that shows them the
// prepared files, and that runs them there, belongs here.
void EnterPlace(const PreparedPlace& place, common::RankLaunch* command);

// `<attempt dir>/code/<workdir>`. A workdir that would lead out counts as empty.
std::string CodeWorkdir(const Paths& paths, const AttemptKey& key, const std::string& workdir);
// Replaces the workdir of a job that brought its code, for everything that the launch does with it.
void UseAttemptCode(const Paths& paths, v1::LaunchAttempt* launch);

}  // namespace muster::worker
