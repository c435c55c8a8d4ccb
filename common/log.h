// A daemon's own log: one line per state transition, `time level message key=value …`, to stderr or
// a file. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace muster::common {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines go to `path` from now on (appended); empty: stderr. `name` is the daemon's.
absl::Status OpenLog(std::string_view name, const std::string& path, LogLevel least);
void Log(LogLevel level, std::string_view message);

inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }

}  // namespace muster::common
