// Captures stacks by signal; see native_stacks.h.
#include "diagnosis/native_stacks.h"

#include <dirent.h>
#include <execinfo.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "diagnosis/symbols.h"

namespace muster {
namespace {

constexpr int kFramesMax = 128;
constexpr size_t kThreadsMax = 1'024;
constexpr std::chrono::milliseconds kAnswerTime(500);  // per thread

// Where an interrupted thread writes its stack. `state` holds the request number (from 1) and its
// answer: a thread that answers late finds a different number and writes nothing.
enum Answer : uint32_t { kIdle = 0, kAsked = 1, kWriting = 2, kWritten = 3 };
struct Slot {
  std::atomic<uint32_t> state{0};
  uintptr_t interrupted_at = 0;
  int count = 0;
  std::array<void*, kFramesMax> frames{};
};
constexpr uint32_t packed(uint32_t question, Answer answer) { return question << 2 | answer; }

// A signal handler can access only globals.
Slot slot;
std::atomic<int> request_descriptor{-1};
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

uintptr_t program_counter(const void* context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return 0;
#endif
}

void leave_stack(uint32_t question, const void* context) {
  uint32_t asked = packed(question, kAsked);
  if (!slot.state.compare_exchange_strong(asked, packed(question, kWriting))) return;
  slot.interrupted_at = program_counter(context);
  slot.count = ::backtrace(slot.frames.data(), kFramesMax);
  slot.state.store(packed(question, kWritten));
  ::syscall(SYS_futex, &slot.state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void on_signal(int, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (info->si_code == SI_QUEUE && info->si_pid == ::getpid()) {
    leave_stack(static_cast<uint32_t>(info->si_value.sival_int), context);
  } else if (const int fd = request_descriptor.load(); fd >= 0) {
    const uint64_t one = 1;
    if (::write(fd, &one, sizeof(one)) < 0) errno = saved_errno;  // full: already requested
  }
  errno = saved_errno;
}

// The text after "Name:" in a /proc file.
std::string proc_value(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", name.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

bool blocks_signal(const std::string& task) {
  const uint64_t blocked =
      std::strtoull(proc_value(task + "/status", "SigBlk:").c_str(), nullptr, 16);
  return (blocked >> (stack_signal() - 1) & 1) != 0;
}

std::string blocked_place(const std::string& task) {
  std::ifstream file(task + "/wchan");
  std::string place;
  std::getline(file, place);
  return place.empty() || place == "0" ? "" : "; blocked in the kernel in " + place;
}

// Waits until the slot shows that the request was answered.
bool wait_for_answer(uint32_t question) {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerTime;
  while (true) {
    uint32_t seen = slot.state.load();
    if (seen == packed(question, kWritten)) return true;
    if (std::chrono::steady_clock::now() > deadline && seen == packed(question, kAsked) &&
        slot.state.compare_exchange_strong(seen, kIdle)) {
      return false;
    }
    // A thread that has started to write finishes soon: give up only on requests that no thread
    // received.
    const timespec pause = {0, 20'000'000};
    ::syscall(SYS_futex, &slot.state, FUTEX_WAIT_PRIVATE, seen, &pause, nullptr, 0);
  }
}

bool ask(pid_t thread, uint32_t question) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(question);
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, stack_signal(), &info) == 0;
}

std::vector<pid_t> other_threads() {
  std::vector<pid_t> threads;
  const auto own = static_cast<pid_t>(::syscall(SYS_gettid));
  DIR* directory = ::opendir("/proc/self/task");
  if (directory == nullptr) return threads;
  while (const dirent* entry = ::readdir(directory)) {
    const pid_t id = std::atoi(entry->d_name);
    if (id > 0 && id != own && threads.size() < kThreadsMax) threads.push_back(id);
  }
  ::closedir(directory);
  std::sort(threads.begin(), threads.end());
  return threads;
}

std::vector<uintptr_t> interrupted_frames() {
  std::vector<uintptr_t> frames;
  for (int i = 0; i < slot.count; ++i) {
    frames.push_back(reinterpret_cast<uintptr_t>(slot.frames[static_cast<size_t>(i)]));
  }
  // Drop the frames of the handler and of its signal trampoline.
  const auto first = std::find(frames.begin(), frames.end(), slot.interrupted_at);
  frames.erase(frames.begin(),
               first != frames.end() ? first : frames.begin() + std::min<long>(2, slot.count));
  return frames;
}

// Frames stay plain addresses until all threads have resumed, because symbol lookup takes longer.
struct RawStack {
  ThreadStack stack;
  std::vector<uintptr_t> addresses;
};

std::optional<RawStack> capture(pid_t id, uint32_t question) {
  const std::string task = "/proc/self/task/" + std::to_string(id);
  RawStack raw;
  raw.stack.id = id;
  raw.stack.name = proc_value(task + "/status", "Name:");
  raw.stack.state = (proc_value(task + "/status", "State:") + "?")[0];
  if (blocks_signal(task)) {
    raw.stack.problem = "blocks the signal" + blocked_place(task);
    return raw;
  }
  slot.state.store(packed(question, kAsked));
  if (!ask(id, question)) {
    slot.state.store(kIdle);
    return std::nullopt;  // the thread has exited
  }
  if (wait_for_answer(question)) {
    raw.addresses = interrupted_frames();
  } else {
    raw.stack.problem = "did not answer within " + std::to_string(kAnswerTime.count()) + " ms" +
                        blocked_place(task);
  }
  return raw;
}

bool is_system_library(std::string_view module) {
  for (const std::string_view library : {"libc.so", "libc-", "libpthread", "ld-linux", "[vdso]",
                                         "linux-vdso", "libstdc++", "libgcc_s", "libm.so"}) {
    if (module.substr(0, library.size()) == library) return true;
  }
  return false;
}

// Without arguments, template arguments and the return type.
std::string short_name(const std::string& function) {
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < function.size(); ++i) {
    const char byte = function[i];
    if (depth == 0 && function.compare(i, 21, "(anonymous namespace)") == 0) {
      i += 22;  // including the "::" after it
      continue;
    }
    if (byte == '<' || byte == '(') {
      if (byte == '(' && depth == 0) break;
      ++depth;
    } else if (byte == '>' || byte == ')') {
      --depth;
    } else if (depth == 0) {
      name += byte;
    }
  }
  const size_t blank = name.rfind(' ');
  if (blank != std::string::npos && name.find("operator") == std::string::npos) {
    name = name.substr(blank + 1);
  }
  return name.empty() ? function : name;
}

}  // namespace

int stack_signal() { return SIGRTMIN + 6; }

bool install_stack_signal(int request_fd) {
  struct sigaction current {};
  if (::sigaction(stack_signal(), nullptr, &current) != 0) return false;
  const bool ours = (current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_signal;
  if (!ours && current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN) return false;
  request_descriptor.store(request_fd);
  if (ours) return true;
  // The first call loads a library and allocates, which a signal handler must not do.
  std::array<void*, 4> warm_up{};
  ::backtrace(warm_up.data(), static_cast<int>(warm_up.size()));
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  return ::sigaction(stack_signal(), &action, nullptr) == 0;
}

std::vector<ThreadStack> capture_stacks() {
  static uint32_t question = 0;
  std::vector<RawStack> raw;
  for (const pid_t id : other_threads()) {
    question = question % 0x1fff'ffff + 1;
    if (auto captured = capture(id, question)) raw.push_back(std::move(*captured));
  }
  Symbols symbols;
  std::vector<ThreadStack> stacks;
  for (RawStack& captured : raw) {
    ThreadStack& stack = stacks.emplace_back(std::move(captured.stack));
    for (size_t i = 0; i < captured.addresses.size(); ++i) {
      const uintptr_t address = captured.addresses[i];
      // A return address follows its call, which may be the function's last instruction.
      Symbols::Place place = symbols.place_of(address - (i == 0 ? 0 : 1));
      stack.frames.push_back(
          {address, std::move(place.function), std::move(place.module), place.offset});
    }
  }
  return stacks;
}

std::string place_in_words(const ThreadStack& thread, size_t most) {
  size_t first = 0;
  while (first < thread.frames.size() && is_system_library(thread.frames[first].module)) ++first;
  if (first == thread.frames.size()) first = 0;  // all frames are in system libraries
  if (first > 0 && thread.frames[first - 1].function.empty()) --most;
  std::string text;
  for (size_t i = first > 0 ? first - 1 : 0; i < thread.frames.size() && most > 0; ++i) {
    if (thread.frames[i].function.empty()) continue;
    text += (text.empty() ? "" : " < ") + short_name(thread.frames[i].function);
    --most;
  }
  return text;
}

}  // namespace muster
