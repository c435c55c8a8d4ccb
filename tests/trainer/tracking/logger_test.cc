// Levels, ranks, and order of log lines.
#include "muster/tracking/logger.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

namespace muster {
namespace {

class LoggerTest : public ::testing::Test {
 protected:
  LoggerOptions options(int rank, int world_size = 2) {
    LoggerOptions options;
    options.topology.rank = rank;
    options.topology.world_size = world_size;
    options.wait_for_everyone = [this] { said_.push_back("barrier"); };
    options.write = [this](std::string_view line) { said_.emplace_back(line.substr(9)); };
    return options;
  }

  std::vector<std::string> said_;  // without the time of day
};

using Lines = std::vector<std::string>;

TEST_F(LoggerTest, OnlyTheMainProcessLogsByDefault) {
  for (const int rank : {0, 1}) {
    const Logger logger("train", options(rank));
    logger.info("begin");
    logger.warning("slow", {.main_process_only = false});
  }
  EXPECT_EQ(said_,
            Lines({"INFO train: begin", "WARNING train: slow", "WARNING train: [rank 1] slow"}));
}

TEST_F(LoggerTest, RanksLogInOrderWithABarrierEach) {
  for (const int rank : {0, 1}) {
    Logger logger("train", options(rank));
    logger.set_level(LogLevel::warning);
    logger.error("here", {.in_order = true});
    logger.debug("not said, but everyone waits", {.in_order = true});
  }
  EXPECT_EQ(said_,
            Lines({"ERROR train: here", "barrier", "barrier", "barrier", "barrier", "barrier",
                   "ERROR train: [rank 1] here", "barrier", "barrier", "barrier"}));
  LoggerOptions alone = options(0);
  alone.wait_for_everyone = nullptr;
  EXPECT_THROW(Logger("train", alone).info("x", {.in_order = true}), std::logic_error);
}

TEST_F(LoggerTest, LeavesOutWhatIsBelowTheLevel) {
  Logger logger("train", options(0));
  logger.debug("a");
  EXPECT_FALSE(logger.is_enabled_for(LogLevel::debug));
  const Logger copy = logger;
  logger.set_level(LogLevel::debug);
  copy.debug("b");
  logger.set_level(LogLevel::off);
  copy.critical("c");
  EXPECT_EQ(said_, Lines({"DEBUG train: b"}));
}

TEST_F(LoggerTest, LogsAWarningOnce) {
  const Logger logger("train", options(0));
  for (int i = 0; i < 3; ++i) logger.warning_once("again");
  logger.warning_once("other");
  EXPECT_EQ(said_, Lines({"WARNING train: again", "WARNING train: other"}));
}

TEST_F(LoggerTest, TakesTheLevelFromTheEnvironment) {
  ::setenv("ACCELERATE_LOG_LEVEL", "ERROR", 1);
  EXPECT_EQ(get_logger("a", options(0)).level(), LogLevel::error);
  ::setenv("MUSTER_LOG_LEVEL", "debug", 1);
  EXPECT_EQ(get_logger("a", options(0)).level(), LogLevel::debug);
  ::setenv("MUSTER_LOG_LEVEL", "loud", 1);
  EXPECT_EQ(get_logger("a", options(0)).level(), LogLevel::info);
  ::unsetenv("MUSTER_LOG_LEVEL");
  ::unsetenv("ACCELERATE_LOG_LEVEL");
  EXPECT_EQ(get_logger("a").level(), LogLevel::info);
  EXPECT_EQ(said_,
            Lines({"WARNING a: MUSTER_LOG_LEVEL: \"loud\" is not a log level: use debug, info, "
                   "warning, error, critical or off"}));
}

TEST(Logger, WritesWholeLinesToStderr) {
  ::testing::internal::CaptureStderr();
  get_logger("train").info("begin");
  const std::string line = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(line.size(), std::string("13:45:07 INFO train: begin\n").size()) << line;
  EXPECT_EQ(line.substr(8), " INFO train: begin\n");
  EXPECT_EQ(line[2], ':');
  EXPECT_EQ(line[5], ':');
}

}  // namespace
}  // namespace muster
