// Log lines that know their rank, as accelerate.logging.get_logger has them.
//
//   muster::Logger logger = muster::get_logger("train");
//   logger.info("epoch 3 begins");                                   // rank 0 only
//   logger.warning("a slow batch", {.main_process_only = false});    // every rank
//
// A line on stderr: "13:45:07 INFO train: epoch 3 begins"; on other ranks than 0
// "13:45:07 WARNING train: [rank 1] a slow batch". Each is one write(2), so that the lines of
// several ranks never mix within a line. Any thread; in_order only from the training thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/topology.h"

namespace muster {

enum class LogLevel { debug, info, warning, error, critical, off };

// "debug", "info", "warning" ("warn"), "error", "critical" ("fatal"), "off", upper case too.
// Throws std::invalid_argument naming the value for anything else.
LogLevel log_level_from(std::string_view text);

struct LogLineOptions {
  bool main_process_only = true;  // false: every rank that calls speaks
  // The ranks speak one after the other, rank 0 first; main_process_only is then ignored.
  // Collective: every rank must come here, with one barrier per rank.
  bool in_order = false;
};

struct LoggerOptions {
  Topology topology = {};
  LogLevel level = LogLevel::info;  // lines below it are not written
  // What in_order waits with (Accelerator::wait_for_everyone). Empty: in_order with more than one
  // process throws std::logic_error.
  std::function<void()> wait_for_everyone = {};
  // Takes a finished line without its newline. Empty: stderr. A progress bar on the same terminal
  // wants ProgressBar::write here.
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
  // The same text is written once, however often it is given to this logger and its copies.
  void warning_once(std::string_view text, const LogLineOptions& options = {}) const;

  LogLevel level() const;
  void set_level(LogLevel level);
  // Whether lines of this level are written here (on some rank): to skip the making of a text.
  bool is_enabled_for(LogLevel level) const { return level >= this->level(); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A logger for this process: the topology from the environment, the level from MUSTER_LOG_LEVEL,
// else ACCELERATE_LOG_LEVEL, else info. A level that is not one is said on stderr and taken as
// info. Throws TopologyError. Accelerator::get_logger also gives it a barrier for in_order.
Logger get_logger(std::string name);
// The same with the topology and barrier of `options`; the environment's level wins over its.
Logger get_logger(std::string name, LoggerOptions options);

}  // namespace muster
