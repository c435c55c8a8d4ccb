// resolve: libdwfl's callbacks over the captured state.
#include "unwind/resolve.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace muster::unwind {
namespace {

struct State {
  const std::vector<CapturedThread>* threads = nullptr;
  size_t next = 0;
  int memory = -1;  // of the living process, for what the stacks do not hold
};
struct Frames {
  Dwfl* dwfl = nullptr;
  std::vector<Frame> list;
};

// libdwfl does not pass the current thread to this callback, so all captured stacks are searched.
bool ReadWord(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* argument) {
  const State& state = *static_cast<State*>(argument);
  for (const CapturedThread& thread : *state.threads) {
    const uint64_t offset = address - thread.stack_address;
    if (address < thread.stack_address || thread.stack.size() < sizeof *word ||
        offset > thread.stack.size() - sizeof *word) {
      continue;
    }
    std::memcpy(word, thread.stack.data() + offset, sizeof *word);
    return true;
  }
  return pread(state.memory, word, sizeof *word, static_cast<off_t>(address)) == sizeof *word;
}

pid_t NextThread(Dwfl*, void* argument, void** thread_argument) {
  State& state = *static_cast<State*>(argument);
  while (state.next < state.threads->size()) {
    const CapturedThread& thread = (*state.threads)[state.next++];
    if (!thread.problem.empty()) continue;
    *thread_argument = const_cast<CapturedThread*>(&thread);
    return thread.id;
  }
  return 0;
}

// libdwfl asks for a single thread by its id.
bool GetThread(Dwfl*, pid_t id, void* argument, void** thread_argument) {
  for (const CapturedThread& thread : *static_cast<State*>(argument)->threads) {
    if (thread.id != id) continue;
    *thread_argument = const_cast<CapturedThread*>(&thread);
    return true;
  }
  return false;
}

bool SetRegisters(Dwfl_Thread* thread, void* thread_argument) {
  const auto& captured = *static_cast<CapturedThread*>(thread_argument);
  return dwfl_thread_state_registers(thread, 0, kRegisters, captured.registers.data());
}

constexpr Dwfl_Thread_Callbacks kThreadCallbacks = {.next_thread = NextThread,
                                                    .get_thread = GetThread,
                                                    .memory_read = ReadWord,
                                                    .set_initial_registers = SetRegisters,
                                                    .detach = nullptr,
                                                    .thread_detach = nullptr};

// No search for separate debug files and no download: the symbols in the files suffice.
int NoDebugFile(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                char**) {
  return -1;
}

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

Frame FrameAt(Dwfl* dwfl, Dwarf_Addr address, bool is_call) {
  Frame frame;
  frame.offset = address;
  // A return address follows its call, which may be the function's last instruction.
  const Dwarf_Addr within = is_call ? address - 1 : address;
  Dwfl_Module* module = dwfl_addrmodule(dwfl, within);
  if (module == nullptr) return frame;
  Dwarf_Addr start = 0;
  const char* path =
      dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (path != nullptr) {
    const char* slash = std::strrchr(path, '/');
    frame.module = slash == nullptr ? path : slash + 1;
  }
  frame.offset = address - start;
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  const char* name =
      dwfl_module_addrinfo(module, within, &offset, &symbol, nullptr, nullptr, nullptr);
  if (name != nullptr) frame.function = Demangled(name);
  return frame;
}

int AddFrame(Dwfl_Frame* state, void* argument) {
  auto& frames = *static_cast<Frames*>(argument);
  Dwarf_Addr address = 0;
  bool is_activation = false;
  if (!dwfl_frame_pc(state, &address, &is_activation)) return DWARF_CB_ABORT;
  frames.list.push_back(FrameAt(frames.dwfl, address, !is_activation));
  return frames.list.size() < kFramesMax ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// `error`: what a function of libdwfl returned, a number of errno's if positive.
std::string LibraryError(int error) {
  const char* text = error > 0 ? std::strerror(error) : dwfl_errmsg(-1);
  return std::string("libdw: ") + (text == nullptr ? "unknown error" : text);
}

}  // namespace

Resolved Resolve(pid_t process, const std::vector<CapturedThread>& threads) {
  Resolved resolved;
  resolved.frames.resize(threads.size());
  char* no_path = nullptr;
  const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                    .find_debuginfo = NoDebugFile,
                                    .section_address = nullptr,
                                    .debuginfo_path = &no_path};
  const std::unique_ptr<Dwfl, decltype(&dwfl_end)> dwfl(dwfl_begin(&callbacks), dwfl_end);
  State state{.threads = &threads};
  state.memory = open(("/proc/" + std::to_string(process) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  const int reported = dwfl == nullptr ? -1 : dwfl_linux_proc_report(dwfl.get(), process);
  if (reported != 0 || dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0 ||
      !dwfl_attach_state(dwfl.get(), nullptr, process, &kThreadCallbacks, &state)) {
    resolved.problem = LibraryError(reported);
    if (state.memory >= 0) close(state.memory);
    return resolved;
  }
  for (size_t i = 0; i < threads.size(); ++i) {
    if (!threads[i].problem.empty()) continue;
    Frames frames{.dwfl = dwfl.get()};
    dwfl_getthread_frames(dwfl.get(), threads[i].id, AddFrame, &frames);
    resolved.frames[i] = std::move(frames.list);
  }
  close(state.memory);
  return resolved;
}

}  // namespace muster::unwind
