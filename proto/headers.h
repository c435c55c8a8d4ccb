// What most sources of the daemons and of jobctl include, precompiled (CMakeLists.txt). Sources include
// what they use all the same.
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
