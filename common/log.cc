#include "common/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <string>

#include "absl/strings/str_format.h"
#include "common/files.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::common {
namespace {

std::atomic<int> log_fd{STDERR_FILENO};
std::atomic<LogLevel> log_least{LogLevel::kInfo};
std::atomic<uint64_t> lost_lines{0};

std::string TimeText() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%03dZ", text, static_cast<int>(now.tv_nsec / 1'000'000));
}

}  // namespace

absl::Status OpenLog(std::string_view name, const std::string& path, LogLevel least) {
  log_least = least;
  if (path.empty()) return absl::OkStatus();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(StrCat(name, ": cannot open log ", path));
  const int old = log_fd.exchange(fd);
  if (old != STDERR_FILENO) close(old);
  return absl::OkStatus();
}

void Log(LogLevel level, std::string_view message) {
  if (level < log_least.load()) return;
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  // One write per line: lines of several threads never mix.
  std::string line =
      StrCat(TimeText(), " ", kNames[static_cast<int>(level)], " ", Printable(message), "\n");
  // A full disk takes no line: how many it swallowed is said when there is room again.
  const uint64_t lost = lost_lines.exchange(0);
  if (lost > 0) {
    line = StrCat(TimeText(), " warning ", lost,
                  " lines of this log are lost: it could not be "
                  "written\n",
                  line);
  }
  if (!WriteAll(log_fd.load(), line).ok()) lost_lines += lost + 1;
}

}  // namespace muster::common
