// capture: seize, interrupt, copy, detach; one thread at a time.
#include "unwind/capture.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/files/plain_files.h"

namespace muster::unwind {
namespace {

constexpr int kStopWaitUs = 100'000;  // a thread in the kernel may not stop at all
constexpr int kStopPollUs = 50;
constexpr uint64_t kRedZoneBytes = 128;

std::string Proc(pid_t process) { return "/proc/" + std::to_string(process); }

// The text after "Name:\t" in the process's status file.
std::string StatusValue(pid_t process, const std::string& name) {
  std::string status;
  common::ReadSmallFile(Proc(process) + "/status", &status);
  const size_t at = status.find("\n" + name + ":\t");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 3;
  return status.substr(begin, status.find('\n', begin) - begin);
}

std::string WhyRefused(pid_t process, int error) {
  if (error != EPERM) return std::string("it cannot be traced: ") + std::strerror(error);
  if (const std::string tracer = StatusValue(process, "TracerPid");
      !tracer.empty() && tracer != "0") {
    return "process " + tracer + " already traces it; fix: detach that debugger, then retry";
  }
  std::string scope;
  if (common::ReadSmallFile("/proc/sys/kernel/yama/ptrace_scope", &scope) && scope[0] > '0') {
    return "the node's Yama forbids it; fix: as root on the node, sysctl "
           "kernel.yama.ptrace_scope=0";
  }
  return "the worker may not trace it: another user's process, or one that forbids it; fix: run "
         "the worker as the user of its ranks, in a container with --cap-add SYS_PTRACE";
}

std::vector<pid_t> ThreadsOf(pid_t process) {
  std::vector<pid_t> threads;
  DIR* directory = opendir((Proc(process) + "/task").c_str());
  if (directory == nullptr) return threads;
  while (const dirent* entry = readdir(directory)) {
    if (const pid_t id = std::atoi(entry->d_name); id > 0) threads.push_back(id);
  }
  closedir(directory);
  std::sort(threads.begin(), threads.end());
  // The main thread's number is the process's, which may not be the lowest after a wrap.
  const auto main_thread = std::find(threads.begin(), threads.end(), process);
  if (main_thread != threads.end()) std::rotate(threads.begin(), main_thread, main_thread + 1);
  if (threads.size() > kThreadsMax) threads.resize(kThreadsMax);
  return threads;
}

// Returns the signal to detach with, because a signal that was on its way to the thread must still
// arrive; -1: the thread did not stop.
int WaitForStop(pid_t thread) {
  for (int waited_us = 0; waited_us < kStopWaitUs; waited_us += kStopPollUs) {
    int status = 0;
    const pid_t got = waitpid(thread, &status, __WALL | WNOHANG);
    if (got == thread && WIFSTOPPED(status)) {
      return (status >> 16) == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    }
    if (got != 0) return -1;  // it has ended
    const timespec pause{0, kStopPollUs * 1'000};
    ppoll(nullptr, 0, &pause, nullptr);
  }
  return -1;
}

bool CopyState(pid_t thread, int memory, CapturedThread* captured) {
#if defined(__x86_64__)
  user_regs_struct regs{};
  iovec space{&regs, sizeof regs};
  if (ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(NT_PRSTATUS), &space) != 0) {
    return false;
  }
  captured->registers = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
                         regs.rbp, regs.rsp, regs.r8,  regs.r9,  regs.r10, regs.r11,
                         regs.r12, regs.r13, regs.r14, regs.r15, regs.rip};
  captured->stack_address = regs.rsp - kRedZoneBytes;
  captured->stack.resize(kStackBytesMax);
  const ssize_t count = pread(memory, captured->stack.data(), captured->stack.size(),
                              static_cast<off_t>(captured->stack_address));
  captured->stack.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return true;
#else
  return false;
#endif
}

CapturedThread CaptureThread(pid_t process, pid_t thread, int memory) {
  CapturedThread captured;
  captured.id = thread;
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    captured.problem = WhyRefused(process, errno);
    return captured;
  }
  const int signal =
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 ? WaitForStop(thread) : -1;
  if (signal < 0) {
    // The kernel detaches it when this program exits.
    captured.problem = "it did not stop within 100 ms: it has ended, or is stuck in the kernel";
    return captured;
  }
  if (!CopyState(thread, memory, &captured)) captured.problem = "its registers cannot be read";
  ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(signal)));
  return captured;
}

}  // namespace

std::vector<CapturedThread> Capture(pid_t process) {
  std::vector<CapturedThread> captured;
  const int memory = open((Proc(process) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  for (const pid_t thread : ThreadsOf(process)) {
    captured.push_back(CaptureThread(process, thread, memory));
  }
  if (memory >= 0) close(memory);
  return captured;
}

}  // namespace muster::unwind
