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

// In the file's order: the last of several mounts at one point is on top. Malformed lines are left out.
std::vector<MountEntry> ParseMountInfo(std::string_view text);

}  // namespace muster::common
