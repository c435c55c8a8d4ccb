// The levels that the usual logging libraries print.
#include "common/lines/line_level.h"

#include <gtest/gtest.h>

namespace muster::common {
namespace {

struct Row {
  const char* line;
  std::optional<LineLevel> level;
};

TEST(LineLevelTest, LinesAndTheirLevels) {
  constexpr auto kNone = std::nullopt;
  const Row rows[] = {
      // glog, PyTorch
      {"E1122 06:01:02.123456 12 main.cc:3] broken", LineLevel::kError},
      {"W1122 06:01:02.123456 12 main.cc:3] hot", LineLevel::kWarn},
      {"I1122 06:01:02.123456 12 main.cc:3] error handling is on", LineLevel::kInfo},
      {"F1122 06:01:02.123456 12 main.cc:3] Check failed", LineLevel::kFatal},
      {"[rank3]:[W1122 06:01:02.1 ProcessGroup.cpp:1] slow", LineLevel::kWarn},
      {"[rank0]: E1122 06:01:02.123456 12 x.py:3] broken", LineLevel::kError},
      // Python logging
      {"WARNING:root:disk is nearly full", LineLevel::kWarn},
      {"DEBUG:urllib3:GET", LineLevel::kDebug},
      {"CRITICAL:root:gone", LineLevel::kFatal},
      {"2024-05-01 10:00:00,123 - trainer - ERROR - cannot load", LineLevel::kError},
      {"2024-05-01 10:00:00,123 - trainer - INFO - epoch 3", LineLevel::kInfo},
      {"2024-05-01 10:00:00 [ERROR] cannot load", LineLevel::kError},
      {"INFO     lightning:trainer.py:12 go", LineLevel::kInfo},
      {"train.py:12: UserWarning: slow", LineLevel::kWarn},
      // spdlog
      {"[2024-05-01 10:00:00.000] [net] [error] refused", LineLevel::kError},
      {"[2024-05-01 10:00:00.000] [warning] refused", LineLevel::kWarn},
      {"[2024-05-01 10:00:00.000] [critical] refused", LineLevel::kFatal},
      // JSON, logfmt
      {R"({"ts":1,"level":"error","msg":"x"})", LineLevel::kError},
      {R"({"severity": "WARNING", "message": "x"})", LineLevel::kWarn},
      {R"({"level":50,"msg":"pino"})", LineLevel::kError},
      {R"({"loss":0.1,"msg":"level of error"})", kNone},
      {"ts=1 level=warn msg=x", LineLevel::kWarn},
      // Rust, others
      {"2024-05-01T10:00:00Z ERROR my_crate: broken", LineLevel::kError},
      {"[2024-05-01T10:00:00Z WARN  my_crate] hot", LineLevel::kWarn},
      {"10:00:00.123 DEBUG loop", LineLevel::kDebug},
      {"FATAL: cannot open", LineLevel::kFatal},
      {"main.cc:3:1: warning: unused", LineLevel::kWarn},
      // Errors without a level
      {"ValueError: bad", LineLevel::kError},
      {"Traceback (most recent call last):", LineLevel::kError},
      {"torch.cuda.OutOfMemoryError: CUDA out of memory.", LineLevel::kError},
      {"Segmentation fault (core dumped)", LineLevel::kError},
      // None
      {"step 120 loss 0.431", kNone},
      {"error: 0.25", kNone},
      {"we saw INFO in the middle of it", kNone},
      {"informational", kNone},
      {"", kNone},
      {"50%|#####     | 5/10\r", kNone},
  };
  for (const Row& row : rows) EXPECT_EQ(LevelOf(row.line), row.level) << row.line;
}

TEST(LineLevelTest, AnyBytesHaveSomeLevel) {
  std::string all;
  for (int i = 0; i < 1000; ++i) all += static_cast<char>(i * 37);
  for (size_t cut = 0; cut < all.size(); ++cut) LevelOf(std::string_view(all).substr(cut));
  EXPECT_FALSE(LevelOf(std::string_view("\0\0", 2)).has_value());
}

TEST(LineLevelTest, ContinuationLinesHaveTheLevelOfTheLineTheyContinue) {
  const std::pair<const char*, LineLevel> lines[] = {
      {"starting", LineLevel::kInfo},
      {"WARNING:root:several", LineLevel::kWarn},
      {"  lines", LineLevel::kWarn},
      {"continues", LineLevel::kInfo},
      {"Traceback (most recent call last):", LineLevel::kError},
      {"  File \"train.py\", line 3, in main", LineLevel::kError},
      {"    logging.info('x')", LineLevel::kError},
      {"KeyError: 'a'", LineLevel::kError},
      {"", LineLevel::kError},
      {"During handling of the above exception, another exception occurred:", LineLevel::kError},
      {"step 1", LineLevel::kInfo},
      {"[rank1]: Traceback (most recent call last):", LineLevel::kError},
      {"[rank1]:   File \"train.py\", line 3", LineLevel::kError},
      {"[rank1]: step 2", LineLevel::kInfo},
  };
  LevelTracker tracker;
  for (const auto& [line, level] : lines) EXPECT_EQ(tracker.Next(line), level) << line;
}

}  // namespace
}  // namespace muster::common
