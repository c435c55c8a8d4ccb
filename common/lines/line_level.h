// The level of a line of a rank's output, as the usual logging libraries write it. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace muster::common {

// In the order of v1::LogLevel.
enum class LineLevel { kDebug = 1, kInfo, kWarn, kError, kFatal };

// "warn", "WARNING", "critical", …; nullopt: not a level.
std::optional<LineLevel> LevelNamed(std::string_view word);

// The level that the line itself carries: glog ("E1122 …"), Python's logging ("WARNING:root:…",
// "… - ERROR - …"), bracketed ("[error]"), JSON ({"level":"error"}), logfmt (level=error), a level
// in capitals after a time, a compiler's or Python's "… warning:"; error for everything else that
// reads as an error (error_lines.h). Reads only the first 256 bytes. nullopt: it carries none.
std::optional<LineLevel> LevelOf(std::string_view line);

// The level of each line of one stream, in order. A line without a level inherits the previous
// line's if it continues that line: it is indented, or belongs to a Python traceback. Otherwise it
// is info.
class LevelTracker {
 public:
  LineLevel Next(std::string_view line);

 private:
  LineLevel last_ = LineLevel::kInfo;
};

}  // namespace muster::common
