// muster-unwind PID: prints the stacks of a process's threads and exits. The worker starts it,
// reads its output as foreign text, and kills it after two seconds. Tabs separate the fields:
//   thread ID PROBLEM
//   frame OFFSET MODULE FUNCTION          of the thread before it, innermost first
//   problem TEXT                          why no thread has frames
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/files/plain_files.h"
#include "unwind/capture.h"
#include "unwind/resolve.h"

namespace muster::unwind {
namespace {

constexpr unsigned kSeconds = 2;
constexpr rlim_t kAddressBytes = rlim_t{8} << 30;  // LibTorch for CUDA is mapped as a whole
constexpr size_t kNameBytesMax = 400;

void Limit(int resource, rlim_t limit) {
  const rlimit both{limit, limit};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

// The traced process controls what this program reads: limit its time and memory, leave no core
// file, and be the first to be killed when memory runs out.
void LimitThisProcess() {
  alarm(kSeconds);
  Limit(RLIMIT_CPU, kSeconds);
  Limit(RLIMIT_AS, kAddressBytes);
  Limit(RLIMIT_CORE, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  common::WriteControlFile("/proc/self/oom_score_adj", "1000");
}

std::string OneField(std::string text) {
  if (text.size() > kNameBytesMax) text = text.substr(0, kNameBytesMax) + "...";
  for (char& byte : text) {
    if (byte == '\t' || byte == '\n') byte = ' ';
  }
  return text;
}

int Run(pid_t process) {
  const std::vector<CapturedThread> threads = Capture(process);
  const bool any = std::any_of(threads.begin(), threads.end(),
                               [](const CapturedThread& thread) { return thread.problem.empty(); });
  Resolved resolved;
  if (any) resolved = Resolve(process, threads);
  resolved.frames.resize(threads.size());
  if (!resolved.problem.empty()) std::printf("problem\t%s\n", OneField(resolved.problem).c_str());
  for (size_t i = 0; i < threads.size(); ++i) {
    std::printf("thread\t%d\t%s\n", threads[i].id, OneField(threads[i].problem).c_str());
    for (const Frame& frame : resolved.frames[i]) {
      std::printf("frame\t%llx\t%s\t%s\n", static_cast<unsigned long long>(frame.offset),
                  OneField(frame.module).c_str(), OneField(frame.function).c_str());
    }
    std::fflush(stdout);  // keep what is known even if the next stack crashes us
  }
  return 0;
}

}  // namespace
}  // namespace muster::unwind

int main(int argc, char** argv) {
  const pid_t process = argc == 2 ? std::atoi(argv[1]) : 0;
  if (process <= 0) {
    std::fputs("usage: muster-unwind PID\n", stderr);
    return 2;
  }
  muster::unwind::LimitThisProcess();
  return muster::unwind::Run(process);
}
