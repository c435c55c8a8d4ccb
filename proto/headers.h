// The precompiled header (CMakeLists.txt): what most sources of the daemons and of jobctl include. Sources
// still include everything they use.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"
