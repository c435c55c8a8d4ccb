// Rank-aware logging, as in accelerate.logging.get_logger.
//
//   muster::Logger logger = muster::get_logger("train");
//   logger.info("epoch 3 begins");                                   // rank 0 only
//   logger.warning("a slow batch", {.main_process_only = false});    // every rank
//
// Lines on stderr look like "13:45:07 INFO train: epoch 3 begins", and on ranks other than 0 like
// "13:45:07 WARNING train: [rank 1] a slow batch". Each is one write(2), so lines of several ranks
// are never interleaved. Any thread; in_order only from the training thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/topology.h"

namespace muster {

enum class LogLevel { debug, info, warning, error, critical, off };

// "debug", "info", "warning" ("warn"), "error", "critical" ("fatal") or "off", in upper or lower
// case. Throws std::invalid_argument naming the value otherwise.
LogLevel log_level_from(std::string_view text);

struct LogLineOptions {
  bool main_process_only = true;  // false: every rank that calls logs the line
  // The ranks log one after another, rank 0 first; main_process_only is then ignored. Collective:
  // every rank must call, and each call costs one barrier per rank.
  bool in_order = false;
};

struct LoggerOptions {
  Topology topology = {};
  LogLevel level = LogLevel::info;  // lines below it are not written
  // The barrier for in_order (Accelerator::wait_for_everyone). Empty: in_order with more than one
  // process throws std::logic_error.
  std::function<void()> wait_for_everyone = {};
  // Receives each finished line, without its newline. Empty: stderr. With a progress bar on the
  // same terminal, use ProgressBar::write.
  std::function<void(std::string_view line)> write = {};
};

// Copies share their state.
class Logger {
 public:
  Logger(std::string name, LoggerOptions options);

  void debug(std::string_view text, const LogLineOptions& options = {}) const;
  void info(std::string_view text, const LogLineOptions& options = {}) const;
  void warning(std::string_view text, const LogLineOptions& options = {}) const;
  void error(std::string_view text, const LogLineOptions& options = {}) const;
  void critical(std::string_view text, const LogLineOptions& options = {}) const;
  void log(LogLevel level, std::string_view text, const LogLineOptions& options = {}) const;
  // Logs the same text only once, however often it is passed to this logger and its copies.
  void warning_once(std::string_view text, const LogLineOptions& options = {}) const;

  LogLevel level() const;
  void set_level(LogLevel level);
  // Whether lines of this level are written (on some rank); use it to avoid formatting a text in
  // vain.
  bool is_enabled_for(LogLevel level) const { return level >= this->level(); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A logger for this process: topology from the environment, level from MUSTER_LOG_LEVEL, else
// ACCELERATE_LOG_LEVEL, else info. An invalid level is reported on stderr and treated as info.
// Throws TopologyError. Accelerator::get_logger adds a barrier for in_order.
Logger get_logger(std::string name);
// The same with the topology and barrier of `options`; the environment's level overrides
// options.level.
Logger get_logger(std::string name, LoggerOptions options);

}  // namespace muster
