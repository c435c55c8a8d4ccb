#include "coordinator/store_parts/file_age.h"

#include <sys/stat.h>

namespace muster::coordinator {

bool FileAge::IsOlderThan(const std::string& path, std::chrono::hours age) const {
  const auto lived = Steady::now() - began_;
  struct stat info {};
  if (lived < kFirstJudgedAfter || stat(path.c_str(), &info) != 0) return false;
  const int64_t now_s = wall_s_ + std::chrono::duration_cast<std::chrono::seconds>(lived).count();
  return now_s - info.st_mtime > std::chrono::seconds(age).count();
}

}  // namespace muster::coordinator
