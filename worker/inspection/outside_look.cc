// outside_look: /proc always, Python's frames through py-spy, native ones through muster-unwind.
#include "worker/inspection/outside_look.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/base/bounded_command.h"
#include "worker/base/helper_program.h"
#include "worker/base/json_lines.h"
#include "worker/confinement/confined_command.h"
#include "worker/inspection/process_facts.h"
#include "worker/inspection/py_spy.h"

namespace muster::worker {
namespace {

using common::StrCat;
using nlohmann::json;

// limit: looks at ranks: one look at a silent rank; the rest is left out, and the answer reports it
constexpr int64_t kOneLookMs = 2'000;
constexpr int64_t kPySpyMs = 1'200;
constexpr size_t kToolBytesMax = 4 << 20;
constexpr size_t kFramesTold = 64;
constexpr size_t kFunctionBytesMax = 200;
constexpr size_t kFramesInPlace = 3;

struct LookFrame {
  std::string function;
  std::string module;  // or a source file
  uint64_t offset = 0;
  int64_t line = 0;  // > 0: of the source file
};
struct LookStack {
  std::vector<LookFrame> frames;  // innermost first
  std::string problem;
};
struct Stacks {
  std::map<pid_t, LookStack> by_thread;
  std::string how;      // "py-spy", "libdw"; empty: there are none
  std::string problem;  // why there are none, and what would help
};

std::string Shortened(const std::string& foreign) {
  return common::Printable(foreign.substr(0, kFunctionBytesMax));
}

// ---- Python frames ----

std::string StringIn(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string()
             ? Shortened(found->get_ref<const std::string&>())
             : "";
}
int64_t NumberOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

LookStack PythonStack(const json& thread) {
  LookStack stack;
  const auto frames = thread.find("frames");
  if (frames == thread.end() || !frames->is_array()) return stack;
  for (const json& frame : *frames) {
    if (!frame.is_object() || stack.frames.size() == kFramesTold) continue;
    std::string file = StringIn(frame, "short_filename");
    if (file.empty()) file = StringIn(frame, "filename");
    stack.frames.push_back({StringIn(frame, "name"), file.substr(file.rfind('/') + 1), 0,
                            std::max<int64_t>(NumberOf(frame, "line"), 1)});
  }
  return stack;
}

// Yama's "ptrace_scope" above 0 leaves tracing to parents, and to CAP_SYS_PTRACE.
bool MayTraceItsOwn() {
  std::string scope;
  if (!common::ReadSmallFile("/proc/sys/kernel/yama/ptrace_scope", &scope, 16)) return true;
  return scope.starts_with('0');
}

// Runs a program that inspects a process. The process's memory and files are the job's, so the program
// runs as the job's account.
CommandOutput RunTool(const std::vector<std::string>& argv, const RankAccount& account,
                      int timeout_ms) {
  const absl::StatusOr<std::string> shim = FindHelper("muster-shim");
  if (!account.ids.is_other || !shim.ok() || !MayTraceItsOwn())
    return RunBounded(argv, timeout_ms, kToolBytesMax);
  common::RankLaunch command{.program = argv[0], .argv = argv, .workdir = "/"};
  if (const char* path = getenv("PATH")) command.env.push_back(StrCat("PATH=", path));
  return RunConfined({.shim_binary = *shim, .no_new_privs = true}, account, command,
                     {.timeout_ms = timeout_ms, .bytes_max = kToolBytesMax});
}

Stacks PythonStacks(pid_t process, const RankAccount& account) {
  Stacks stacks;
  const PySpy py_spy = FindPySpy(process);
  if (py_spy.path.empty()) {
    stacks.problem = StrCat("no Python frames: ", py_spy.problem);
    return stacks;
  }
  // Without pausing the process, because a py-spy that is killed in the middle would leave it
  // stopped.
  const CommandOutput output =
      RunTool({py_spy.path, "dump", "--json", "--nonblocking", "--pid", std::to_string(process)},
              account, kPySpyMs);
  const json threads = common::NestsDeeper(output.out, common::kJsonDepthMax)
                           ? json()
                           : json::parse(output.out, nullptr, /*allow_exceptions=*/false);
  if (!output.problem.empty() || !threads.is_array()) {
    const std::string said = output.err.substr(0, output.err.find('\n'));
    stacks.problem =
        StrCat("no Python frames: py-spy: ",
               output.problem.empty() ? "its output is not understood" : output.problem,
               said.empty() ? "" : ": ", Shortened(said));
    return stacks;
  }
  const std::map<pid_t, pid_t> by_own_number = ThreadsByOwnNumber(process);
  for (const json& thread : threads) {
    if (!thread.is_object()) continue;
    const auto id = static_cast<pid_t>(NumberOf(thread, "os_thread_id"));
    const auto found = by_own_number.find(id);
    const pid_t known = found == by_own_number.end() ? id : found->second;
    stacks.by_thread[known > 0 ? known : process] = PythonStack(thread);
  }
  stacks.how = "py-spy";
  return stacks;
}

// ---- native frames ----

Stacks NativeStacks(pid_t process, const RankAccount& account, int64_t timeout_ms) {
  Stacks stacks;
  const absl::StatusOr<std::string> program = FindHelper("muster-unwind");
  if (!program.ok()) {
    stacks.problem = StrCat("no native frames: ", std::string(program.status().message()));
    return stacks;
  }
  const CommandOutput output =
      RunTool({*program, std::to_string(process)}, account, static_cast<int>(timeout_ms));
  LookStack* current = nullptr;
  for (const absl::string_view line : absl::StrSplit(output.out, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    int32_t id = 0;
    if (fields[0] == "thread" && fields.size() == 3 && absl::SimpleAtoi(fields[1], &id)) {
      current = &stacks.by_thread[id];
      current->problem = Shortened(fields[2]);
    } else if (fields[0] == "frame" && fields.size() == 4 && current != nullptr &&
               current->frames.size() < kFramesTold) {
      current->frames.push_back({Shortened(fields[3]), Shortened(fields[2]),
                                 std::strtoull(fields[1].c_str(), nullptr, 16), 0});
    } else if (fields[0] == "problem" && fields.size() == 2) {
      stacks.problem = StrCat("no native frames: ", Shortened(fields[1]));
    }
  }
  for (const auto& [thread, stack] : stacks.by_thread) {
    if (!stack.frames.empty()) stacks.how = "libdw";
    if (stack.frames.empty() && stacks.problem.empty() && thread == process) {
      stacks.problem = StrCat("no native frames: ", stack.problem);
    }
  }
  if (stacks.how.empty() && stacks.problem.empty()) {
    stacks.problem = StrCat("no native frames: muster-unwind: ",
                            output.problem.empty() ? "it found no thread" : output.problem);
  }
  return stacks;
}

// ---- words ----

bool IsSystemModule(const std::string& module) {
  for (const char* library : {"libc.so", "libc-", "libpthread", "ld-linux", "[vdso", "linux-vdso",
                              "libstdc++", "libgcc_s", "libm.so"}) {
    if (module.starts_with(library)) return true;
  }
  return false;
}

// Without arguments and template arguments.
std::string BareName(const std::string& function) {
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < function.size(); ++i) {
    if (depth == 0 && function.compare(i, 23, "(anonymous namespace)::") == 0) {
      i += 22;
      continue;
    }
    const char byte = function[i];
    if (byte == '(' && depth == 0) break;
    if (byte == '<') ++depth;
    if (depth == 0) name += byte;
    if (byte == '>' && depth > 0) --depth;
  }
  return name.empty() ? function : name;
}

std::string PlaceName(const LookFrame& frame) {
  if (frame.line > 0) return StrCat(frame.function, " (", frame.module, ":", frame.line, ")");
  return BareName(frame.function);
}

// Frames below every program, or below every Python function, which reveal nothing about this one.
bool IsMachinery(const std::string& function) {
  for (const char* start : {"_start", "__libc_start", "_Py", "Py", "cfunction_",
                            "method_vectorcall", "slot_tp_", "run_mod", "run_eval", "pybind11::"}) {
    if (function.starts_with(start)) return true;
  }
  return function.empty();
}

// "usleep < load_batch < train": the program's own functions, and the last call of a system library.
std::string PlaceOf(const LookStack& stack) {
  size_t first = 0;
  while (first < stack.frames.size() && IsSystemModule(stack.frames[first].module)) ++first;
  if (first == stack.frames.size()) first = 0;
  if (first > 0) --first;
  std::string place;
  size_t told = 0;
  for (size_t i = first; i < stack.frames.size() && told < kFramesInPlace; ++i) {
    if (IsMachinery(stack.frames[i].function)) continue;
    place += StrCat(told++ == 0 ? "" : " < ", PlaceName(stack.frames[i]));
  }
  // If there is only machinery, use its innermost function.
  return place.empty() && first < stack.frames.size() ? PlaceName(stack.frames[first]) : place;
}

json FrameJson(const LookFrame& frame) {
  if (frame.line > 0) {
    return {{"function", frame.function}, {"file", frame.module}, {"line", frame.line}};
  }
  return {{"function", frame.function}, {"module", frame.module}, {"offset", frame.offset}};
}

json ThreadJson(const ThreadFacts& facts, const Stacks& stacks, pid_t process, size_t frames_max) {
  const auto found = stacks.by_thread.find(facts.id);
  const LookStack stack = found == stacks.by_thread.end() ? LookStack() : found->second;
  const bool is_main = facts.id == process;
  std::string place = PlaceOf(stack);
  if (place.empty()) place = facts.call.empty() ? facts.place : facts.call;
  json thread = {{"id", facts.id},
                 {"name", facts.name},
                 {"state", std::string(1, facts.state)},
                 {"doing", DoingText(facts)},
                 {"cpu_s", facts.cpu_seconds},
                 {"training", is_main},
                 {"place", place},
                 {"frames", json::array()}};
  if (stack.frames.empty()) {
    thread["problem"] = StrCat(DoingText(facts), stack.problem.empty() ? "" : "; ", stack.problem);
  }
  const size_t most = is_main ? std::max<size_t>(frames_max, 8) : frames_max;
  for (size_t i = 0; i < std::min(most, stack.frames.size()); ++i) {
    thread["frames"].push_back(FrameJson(stack.frames[i]));
  }
  return thread;
}

std::string RecordText(const LookTarget& target, const ProcessFacts& facts, const Stacks& stacks) {
  double cpu_seconds = 0;
  for (const ThreadFacts& thread : facts.threads) cpu_seconds += thread.cpu_seconds;
  json record = {{"rank", target.rank},
                 {"reason", target.reason},
                 {"time_ms", common::SystemClock().Read().wall_ms},
                 {"groups", json::array()},
                 {"collectives", json::array()},
                 {"outside",
                  {{"pid", facts.pid},
                   {"program", facts.program},
                   {"doing", facts.threads.empty() ? "" : DoingText(facts.threads[0])},
                   {"cpu_s", cpu_seconds},
                   {"threads", facts.thread_count},
                   {"frames", stacks.how.empty() ? "none" : stacks.how},
                   {"problem", stacks.problem}}}};
  // If the record is too large, frames are left out from the outer end of the stacks.
  for (size_t frames_max = kFramesTold;; frames_max /= 2) {
    record["threads"] = json::array();
    for (const ThreadFacts& thread : facts.threads) {
      record["threads"].push_back(ThreadJson(thread, stacks, facts.pid, frames_max));
    }
    std::string text = record.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() <= kDiagnosisBytesMax || frames_max == 0) return text;
  }
}

bool IsStillThere(const LookTarget& target) {
  common::ProcessStat stat;
  return common::ReadProcessStat(target.pid, &stat) && stat.start_time == target.start_time;
}

}  // namespace

std::string LookFromOutside(const LookTarget& target, const RankAccount& account) {
  if (!IsStillThere(target)) return "";
  const int64_t deadline_ms = common::MonotonicMs() + kOneLookMs;
  const pid_t process = WorkingProcess(target.pid);
  const ProcessFacts facts = ReadProcessFacts(process);
  Stacks stacks;
  if (facts.is_python) stacks = PythonStacks(process, account);
  if (stacks.how.empty()) {
    const std::string before = stacks.problem;
    stacks =
        NativeStacks(process, account, std::max<int64_t>(deadline_ms - common::MonotonicMs(), 200));
    if (!before.empty()) {
      stacks.problem = StrCat(before, stacks.problem.empty() ? "" : "; ", stacks.problem);
    }
  }
  return RecordText(target, facts, stacks);
}

}  // namespace muster::worker
