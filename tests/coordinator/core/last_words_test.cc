// The sentence about a rank's exit quotes what reads as an error and was printed just before,
// nothing else.
#include "coordinator/core/views/last_words.h"

#include <gtest/gtest.h>

#include <csignal>

#include "common/lines/error_lines.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

using common::ReadsAsError;

TEST(LastWordsTest, TheseReadAsErrors) {
  for (const char* line : {
           "ValueError: boom",
           "ValueError:boom",
           "RuntimeError",
           "KeyError: 3",
           "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: x",
           "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
           "KeyboardInterrupt",
           "subprocess.CalledProcessError: Command '['false']' returned non-zero exit status 1.",
           "java.lang.NullPointerException: x",
           "AssertionError",
           "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: a warning",
           "  what():  boom",
           "terminate called after throwing an instance of 'std::runtime_error'",
           "train: train.cc:12: int main(): Assertion `x == 1' failed.",
           "train.py: error: unrecognized arguments: --foo",
           "error: no such option",
           "Error: cannot find module 'x'",
           "2026-01-02 03:04:05,678 ERROR trainer: lost the data",
           "[ERROR] lost the data",
           "2026-01-02 | ERROR | lost the data",
           "fatal: not a git repository",
           "x.cc:1:10: fatal error: a.h: No such file or directory",
           "Fatal Python error: Segmentation fault",
           "F1122 06:01:02.123456 12 x.cc:3] Check failed: a == b",
           "[rank0]:[E1122 06:01:02.123456 ProcessGroupNCCL.cpp:607] Watchdog caught it",
           "Segmentation fault (core dumped)",
           "panic: runtime error: index out of range",
           "thread 'main' panicked at src/main.rs:2:5:",
           "run.sh: line 3: 12345 Killed                  python train.py",
           "Killed",
           "sh: 1: pythn: command not found",
           "python: can't open file '/x/train.py': [Errno 2] No such file or directory",
           "./train: error while loading shared libraries: libtorch.so: cannot open shared object "
           "file",
           "==12==ERROR: AddressSanitizer: heap-use-after-free on address 0x1",
           "CUDA error: device-side assert triggered",
           "free(): double free detected in tcache 2",
           "*** stack smashing detected ***: terminated",
           " 10%|#   | 1/10 [00:01<00:09]\rMemoryError: ",
           "Segmentation fault (debug build)",
           "E1122 06:01:02.123456 12 main.cc:3] cannot read the debug info",
       }) {
    EXPECT_TRUE(ReadsAsError(line)) << line;
  }
}

TEST(LastWordsTest, TheseDoNot) {
  for (const char* line : {
           "",
           "Using config foo",
           "Using config error_model.yaml",
           "errors: 0",
           "0 errors, 3 warnings",
           "finished without error",
           "no error",
           "error: 0",
           "error: no",
           "error: none",
           "error: 0.25",
           "error=1.5e-3",
           "Error rate: 3 %",
           "validation error: 0.25",
           "MeanSquaredError: 0.25",
           "mean squared error 0.03, mean absolute error 0.1",
           "UserWarning: the error will be ignored",
           "x.py:3: DeprecationWarning: RuntimeError: is old",
           "WARNING: error in line 3 was corrected",
           "[W1122 06:01:02.123456 socket.cpp:200] The hostname could not be resolved: error",
           "[rank0]:[W1122 06:01:02.1 ProcessGroupNCCL.cpp:1] WARNING: destroy_process_group()",
           "I1122 06:01:02.123456 12 x.cc:3] out of memory handler installed",
           "INFO: out of memory handler installed",
           "100%|##########| 10/10 [00:10<00:00, 1.00s/it]",
           " 50%|#####     | 5/10 [00:05<00:05,  1.00it/s, error=0.1]",
           "non-fatal",
           "fatal: 0",
           "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
       }) {
    EXPECT_FALSE(ReadsAsError(line)) << line;
  }
}

v1::RankExit Exit(int code, int signal, const std::string& lines) {
  v1::RankExit exit;
  exit.set_node("a");
  exit.set_exit_code(code);
  exit.set_signal(signal);
  exit.set_last_lines(lines);
  return exit;
}

TEST(LastWordsTest, OnlyLinesOfThatMomentAreQuotedAndOfThoseTheLastThatReadsAsAnError) {
  v1::RankExit exit = Exit(3, 0,
                           "ValueError: old\n\nRuntimeError: CUDA error: x\n"
                           "Compile with `TORCH_USE_CUDA_DSA` to enable it.\n");
  EXPECT_EQ(LastWords(exit), "RuntimeError: CUDA error: x");  // an older worker reports no times
  exit.set_fresh_lines(2);
  EXPECT_EQ(LastWords(exit), "RuntimeError: CUDA error: x");
  exit.set_fresh_lines(1);
  EXPECT_EQ(LastWords(exit), "");
  exit.set_fresh_lines(0);
  EXPECT_EQ(DescribeExit(exit), "rank 0 on a exited with code 3");
  exit.set_error_message("its own message");
  EXPECT_EQ(DescribeExit(exit), "rank 0 on a exited with code 3: its own message");
}

TEST(LastWordsTest, ASignalSaysWhoDidNotSendItAndNoMore) {
  v1::RankExit exit = Exit(0, SIGTERM, "Using config foo\nValueError: boom\n");
  EXPECT_EQ(DescribeExit(exit),
            "rank 0 on a was killed by signal 15 (SIGTERM), which Muster did not send");
  exit.set_signal_sent_by_us(true);
  EXPECT_EQ(DescribeExit(exit),
            "rank 0 on a was killed by signal 15 (SIGTERM), sent through Muster");
  exit.set_signal_sent_by_us(false);
  exit.set_stopped_by_us(true);
  EXPECT_EQ(DescribeExit(exit), "rank 0 on a was killed by signal 15 (SIGTERM)");
  EXPECT_EQ(
      DescribeExit(Exit(0, SIGSEGV, "Fatal Python error: Segmentation fault\n")),
      "rank 0 on a was killed by signal 11 (SIGSEGV): Fatal Python error: Segmentation fault");
  v1::RankExit memory = Exit(0, SIGKILL, "Using config foo\n");
  memory.set_out_of_memory(true);
  EXPECT_EQ(DescribeExit(memory), "rank 0 on a was killed by the kernel: out of memory");
}

}  // namespace
}  // namespace muster::coordinator
