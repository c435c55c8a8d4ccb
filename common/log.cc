// The only file that uses spdlog, for levels, time stamps and formatting. The sink is ours: spdlog's file sinks
// buffer in a FILE, create files that every user may read, and after a full disk neither count the dropped
// lines nor terminate the truncated one.
#include "common/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::common {
namespace {

// Writes as much of `data` as the file accepts; returns how much.
size_t WriteSome(int fd, std::string_view data) {
  size_t written = 0;
  while (written < data.size()) {
    const ssize_t count = write(fd, data.data() + written, data.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  return written;
}

// Lines to a descriptor. The mutex of base_sink guards everything here.
class LineSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Takes `fd`.
  void WriteTo(int fd) {
    std::lock_guard lock(mutex_);
    if (fd_ != STDERR_FILENO) close(fd_);
    fd_ = fd;
    cut_ = false;
  }

 private:
  using Message = spdlog::details::log_msg;

  // On a full disk lines are dropped; their number is logged once there is room again.
  void sink_it_(const Message& message) override {
    if (lost_ > 0) {
      const std::string text =
          StrCat(lost_, " lines of this log are lost: it could not be written");
      if (Put(Message(message.time, {}, {}, spdlog::level::warn, text))) lost_ = 0;
    }
    if (lost_ > 0 || !Put(message)) ++lost_;
  }
  void flush_() override {}

  bool Put(const Message& message) {
    spdlog::memory_buf_t line;
    if (cut_) line.push_back('\n');
    formatter_->format(message, line);
    const size_t written = WriteSome(fd_, {line.data(), line.size()});
    if (written > 0) cut_ = line[written - 1] != '\n';
    return written == line.size();
  }

  int fd_ = STDERR_FILENO;
  uint64_t lost_ = 0;
  bool cut_ = false;  // the last line written lacks its end
};

struct DaemonLog {
  std::shared_ptr<LineSink> sink = std::make_shared<LineSink>();
  spdlog::logger logger{"", sink};
};

// Never destroyed: threads may log while the process exits.
DaemonLog& TheLog() {
  static DaemonLog* const log = [] {
    auto* made = new DaemonLog;
    made->logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc, "\n"));
    return made;
  }();
  return *log;
}

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

absl::Status OpenLog(std::string_view name, const std::string& path, LogLevel least) {
  TheLog().logger.set_level(LevelOf(least));
  if (path.empty()) return absl::OkStatus();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(StrCat(name, ": cannot open log ", path));
  TheLog().sink->WriteTo(fd);
  return absl::OkStatus();
}

void Log(LogLevel level, std::string_view message) {
  spdlog::logger& logger = TheLog().logger;
  if (!logger.should_log(LevelOf(level))) return;
  // As text, never as a format string: a job or a peer may have put braces in it.
  logger.log(LevelOf(level), spdlog::string_view_t(Printable(message)));
}

}  // namespace muster::common
