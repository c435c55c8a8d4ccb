// Stacks of threads that sleep, wait, spin, and block the signal.
#include "diagnosis/native_stacks.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "muster/diagnosis/flight_recorder.h"
#include "support/temporary_directory.h"

namespace muster {

// Outside the anonymous namespace, so that the linker keeps the names.
struct Waiting {
  std::atomic<pid_t> id{0};
  std::atomic<bool> over{false};
  std::mutex mutex;
  std::condition_variable changed;
  FileDescriptor event{::eventfd(0, EFD_CLOEXEC)};

  void note_thread() { id.store(static_cast<pid_t>(::syscall(SYS_gettid))); }

  __attribute__((noinline)) void wait_for_condition() {
    std::unique_lock<std::mutex> lock(mutex);
    note_thread();
    changed.wait(lock, [this] { return over.load(); });
  }
  __attribute__((noinline)) void wait_for_event() {
    note_thread();
    pollfd fd{event.get(), POLLIN, 0};
    while (!over.load()) ::poll(&fd, 1, -1);
  }
  __attribute__((noinline)) void spin() {
    note_thread();
    while (!over.load()) {
    }
  }
  __attribute__((noinline)) void wait_deaf() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    wait_for_event();
  }
  void end() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      over.store(true);
    }
    changed.notify_all();
    ::eventfd_write(event.get(), 1);
  }
};

namespace {

std::string stack_text(const ThreadStack& stack) {
  std::string text = stack.problem;
  for (const StackFrame& frame : stack.frames) text += "\n" + frame.function + " " + frame.module;
  return text;
}

// The stack of a thread that runs `function`.
ThreadStack stack_in(void (Waiting::*function)()) {
  Waiting waiting;
  std::thread thread([&] { (waiting.*function)(); });
  while (waiting.id.load() == 0) std::this_thread::yield();
  ThreadStack found;
  EXPECT_TRUE(install_stack_signal(-1));
  for (ThreadStack& stack : capture_stacks()) {
    if (stack.id == waiting.id.load()) found = std::move(stack);
  }
  waiting.end();
  thread.join();
  return found;
}

TEST(NativeStacks, AreTakenOfThreadsThatWaitInTheKernelAndOfThoseThatCompute) {
  for (const auto& [function, name] :
       {std::pair<void (Waiting::*)(), const char*>{&Waiting::wait_for_condition,
                                                    "muster::Waiting::wait_for_condition()"},
        {&Waiting::wait_for_event, "muster::Waiting::wait_for_event()"},
        {&Waiting::spin, "muster::Waiting::spin()"}}) {
    const ThreadStack stack = stack_in(function);
    EXPECT_EQ(stack.problem, "");
    EXPECT_NE(stack_text(stack).find(std::string("\n") + name + " trainer_diagnosis_test"),
              std::string::npos)
        << stack_text(stack);
    // The handler's own frames are removed.
    EXPECT_EQ(stack_text(stack).find("on_signal"), std::string::npos) << stack_text(stack);
  }
}

TEST(NativeStacks, NameTheThreadThatBlocksTheSignal) {
  const ThreadStack stack = stack_in(&Waiting::wait_deaf);
  EXPECT_EQ(stack.problem.find("blocks the signal"), 0u) << stack.problem;
  EXPECT_TRUE(stack.frames.empty());
}

TEST(NativeStacks, ShowThePlaceInAFewWords) {
  const auto frame = [](const char* function, const char* module) {
    return StackFrame{1, function, module, 1};
  };
  ThreadStack stack;
  stack.frames = {frame("clock_nanosleep", "libc.so.6"),
                  frame("usleep", "libc.so.6"),
                  frame("std::vector<int> my::load<int>(std::function<void (int)>)", "program"),
                  frame("(anonymous namespace)::Reader::next() const", "program"),
                  frame("main", "program"),
                  frame("__libc_start_main", "libc.so.6")};
  EXPECT_EQ(place_in_words(stack), "usleep < my::load < Reader::next");
  stack.frames = {frame("(anonymous namespace)::spin()", "program"), frame("", "program"),
                  frame("main", "program")};
  EXPECT_EQ(place_in_words(stack), "spin < main");
  stack.frames = {frame("__futex_wait", "libc.so.6")};
  EXPECT_EQ(place_in_words(stack), "__futex_wait");
  stack.frames.clear();
  EXPECT_EQ(place_in_words(stack), "");
}

TEST(FlightRecorder, WritesARecordOnASignalFromOutside) {
  const TemporaryDirectory directory;
  FlightRecorder recorder({.directory = directory / "new/records", .rank = 7, .world_size = 9});
  EXPECT_TRUE(FlightRecorder::exists());
  EXPECT_THROW(FlightRecorder({.directory = "x"}), std::logic_error);
  ASSERT_EQ(::kill(::getpid(), stack_signal()), 0);
  const std::string path = recorder.directory() + "/flight-rank-00007.json";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!path_exists(path) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_NE(read_file(path, 1 << 20).find("\"reason\": \"a signal\""), std::string::npos);
  // Requested directly, with the answer as one line; the new record replaces the previous one.
  recorder.write("the test");
  EXPECT_NE(read_file(path, 1 << 20).find("\"reason\": \"the test\""), std::string::npos);
  EXPECT_EQ(read_file(recorder.directory() + "/stacks-rank-00007.txt", 1 << 20).find("rank 7 of 9"),
            0u);
}

TEST(FlightRecorder, ReportsThatItCannotWrite) {
  const TemporaryDirectory directory;
  write_file_durably(directory / "file", "in the way");
  FlightRecorder recorder({.directory = directory / "file/below", .rank = 1});
  testing::internal::CaptureStderr();
  recorder.write("the test");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("no file: "), std::string::npos);
}

}  // namespace
}  // namespace muster
