// Where this library's trackers write a run. Pure.
#pragma once

#include <string>

#include "muster/tracking/tracker.h"

namespace muster {

// LOGGING_DIR/PROJECT, and LOGGING_DIR/PROJECT/rank-R on ranks other than 0.
inline std::string run_directory(const std::string& logging_dir, const Tracker::Run& run) {
  std::string path = logging_dir;
  if (!run.project.empty()) path += "/" + run.project;
  if (run.rank != 0) path += "/rank-" + std::to_string(run.rank);
  return path;
}

}  // namespace muster
