// What is mounted where: /proc/PID/mountinfo, whose format is in proc(5).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::common {

struct MountEntry {
  std::string device;  // "8:1"
  std::string root;    // which directory of the file system it shows
  std::string point;
  std::string type;  // "ext4"
};

// In the file's order: of several at one point the last is on top. Lines of another shape are left out.
std::vector<MountEntry> ParseMountInfo(std::string_view text);

}  // namespace muster::common
