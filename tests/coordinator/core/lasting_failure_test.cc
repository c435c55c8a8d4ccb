// Which failures a restart would only repeat.
#include "coordinator/core/outcome/lasting_failure.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace muster::coordinator {
namespace {

v1::RankExit Exit(int code, const std::string& line) {
  v1::RankExit exit;
  exit.set_exit_code(code);
  exit.set_last_lines("starting\n" + line + "\n");
  return exit;
}

TEST(LastingFailureTest, WhatNoRestartHeals) {
  EXPECT_EQ(WhyItWouldRecur(Exit(1, "ModuleNotFoundError: No module named 'datasetz'")),
            "the module would be missing again");
  for (const auto& [code, line] : {
           std::pair(127, "sh: 1: trian: not found"),
           std::pair(127, "bash: line 1: trian: command not found"),
           std::pair(127,
                     "./train: error while loading shared libraries: libfoo.so.1: cannot open "
                     "shared object file: No such file or directory"),
           std::pair(126, "bash: line 1: ./train.py: Permission denied"),
           std::pair(2,
                     "python3: can't open file '/work/trian.py': [Errno 2] No such file or "
                     "directory"),
           std::pair(2, "train.py: error: unrecognized arguments: --batchsize 4"),
           std::pair(2, "train.py: error: the following arguments are required: --data"),
           std::pair(2, "train.py: error: argument --lr: invalid float value: 'x'"),
           std::pair(1, "[rank0]: ModuleNotFoundError: No module named 'x'"),
           std::pair(1, "SyntaxError: invalid syntax"),
           std::pair(1, "IndentationError: unexpected indent"),
       }) {
    EXPECT_NE(WhyItWouldRecur(Exit(code, line)), "") << line;
  }
}

TEST(LastingFailureTest, WhatMayHealIsRestarted) {
  for (const auto& [code, line] : {
           std::pair(1, "ConnectionRefusedError: [Errno 111] Connection refused"),
           std::pair(1, "FileNotFoundError: [Errno 2] No such file or directory: '/data/x'"),
           std::pair(1, "ImportError: libcudart.so.12: cannot open shared object file"),
           std::pair(1, "torch.OutOfMemoryError: CUDA out of memory"),
           std::pair(1, "JobConfigSyntaxError: SyntaxError: x"),
           std::pair(1, "OSError: [Errno 28] No space left on device"),
           std::pair(1, "sh: 1: trian: not found"),  // a script that continues after it
           std::pair(127, "RuntimeError: 127"),
           std::pair(2, "RuntimeError: bad"),
           std::pair(1, ""),
       }) {
    EXPECT_EQ(WhyItWouldRecur(Exit(code, line)), "") << line;
  }
  v1::RankExit killed = Exit(0, "SyntaxError: invalid syntax");
  killed.set_signal(SIGSEGV);
  EXPECT_EQ(WhyItWouldRecur(killed), "");
}

}  // namespace
}  // namespace muster::coordinator
