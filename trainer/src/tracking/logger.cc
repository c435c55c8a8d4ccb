// Rank-aware log lines; see muster/tracking/logger.h.
#include "muster/tracking/logger.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <set>
#include <stdexcept>

namespace muster {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"DEBUG", "INFO", "WARNING", "ERROR",
                                                         "CRITICAL"};

void write_to_stderr(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::write(2, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno != EINTR) return;  // nowhere to report it
    if (count > 0) written += static_cast<size_t>(count);
  }
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
}

}  // namespace

LogLevel log_level_from(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (lower == "debug") return LogLevel::debug;
  if (lower == "info") return LogLevel::info;
  if (lower == "warning" || lower == "warn") return LogLevel::warning;
  if (lower == "error") return LogLevel::error;
  if (lower == "critical" || lower == "fatal") return LogLevel::critical;
  if (lower == "off") return LogLevel::off;
  throw std::invalid_argument(
      "\"" + std::string(text) +
      "\" is not a log level: use debug, info, warning, error, critical or off");
}

struct Logger::State {
  std::string name;
  LoggerOptions options;
  std::atomic<LogLevel> level;
  std::mutex mutex;
  std::set<std::string, std::less<>> said_once;

  void write(LogLevel line_level, std::string_view text) const {
    if (line_level < level.load(std::memory_order_relaxed) || line_level == LogLevel::off) return;
    std::string line = time_of_day() + " ";
    line += kLevelNames[static_cast<size_t>(line_level)];
    line += " ";
    line += name;
    line += ": ";
    if (options.topology.rank != 0) {
      line += "[rank " + std::to_string(options.topology.rank) + "] ";
    }
    line += text;
    options.write ? options.write(line) : write_to_stderr(line);
  }
};

Logger::Logger(std::string name, LoggerOptions options) : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->level = options.level;
  state_->options = std::move(options);
}

void Logger::log(LogLevel level, std::string_view text, const LogLineOptions& line) const {
  const Topology& topology = state_->options.topology;
  if (!line.in_order) {
    if (!line.main_process_only || topology.rank == 0) state_->write(level, text);
    return;
  }
  const auto& wait = state_->options.wait_for_everyone;
  if (topology.world_size > 1 && !wait) {
    throw std::logic_error(
        "in_order needs a logger that can wait for the other processes: use "
        "Accelerator::get_logger, or set LoggerOptions::wait_for_everyone");
  }
  // Run all barriers whatever the level, because another rank's level may differ.
  for (int rank = 0; rank < topology.world_size; ++rank) {
    if (rank == topology.rank) state_->write(level, text);
    if (topology.world_size > 1) wait();
  }
}

void Logger::debug(std::string_view text, const LogLineOptions& options) const {
  log(LogLevel::debug, text, options);
}
void Logger::info(std::string_view text, const LogLineOptions& options) const {
  log(LogLevel::info, text, options);
}
void Logger::warning(std::string_view text, const LogLineOptions& options) const {
  log(LogLevel::warning, text, options);
}
void Logger::error(std::string_view text, const LogLineOptions& options) const {
  log(LogLevel::error, text, options);
}
void Logger::critical(std::string_view text, const LogLineOptions& options) const {
  log(LogLevel::critical, text, options);
}

void Logger::warning_once(std::string_view text, const LogLineOptions& options) const {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->said_once.emplace(text).second) return;
  }
  warning(text, options);
}

LogLevel Logger::level() const { return state_->level.load(std::memory_order_relaxed); }
void Logger::set_level(LogLevel level) { state_->level.store(level, std::memory_order_relaxed); }

Logger get_logger(std::string name) {
  LoggerOptions options;
  options.topology = Topology::from_environment();
  return get_logger(std::move(name), std::move(options));
}

Logger get_logger(std::string name, LoggerOptions options) {
  std::string complaint;
  for (const char* variable : {"MUSTER_LOG_LEVEL", "ACCELERATE_LOG_LEVEL"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    try {
      options.level = log_level_from(value);
    } catch (const std::invalid_argument& error) {
      complaint = std::string(variable) + ": " + error.what();
    }
    break;
  }
  Logger logger(std::move(name), std::move(options));
  if (!complaint.empty()) logger.warning_once(complaint);
  return logger;
}

}  // namespace muster
