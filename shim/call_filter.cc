#include "shim/call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "common/kernel/closed_to_ranks.h"

namespace muster::shim {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the filter needs this architecture's AUDIT_ARCH"
#endif

constexpr uint32_t kX32Calls = 0x40000000;
constexpr size_t kInstructionsMax = 40 + 2 * std::size(common::kRefusedCalls);

constexpr uint32_t AllNewNamespaces() {
  uint32_t flags = 0;
  for (const uint32_t flag : common::kNewNamespaces) flags |= flag;
  return flags;
}

class Program {
 public:
  void Load(size_t offset) {
    Add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  void Answer(uint32_t action) { Add(BPF_STMT(BPF_RET | BPF_K, action)); }
  // These skip the next instruction unless the loaded value equals `value`, differs from it, is at least
  // `value`, or has one of its bits.
  void IfEqual(uint32_t value) { Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)); }
  void IfNotEqual(uint32_t value) { Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0)); }
  void IfAtLeast(uint32_t value) { Add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, 1)); }
  void IfHas(uint32_t bits) { Add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1)); }
  void SkipUnlessEqual(uint32_t value, uint8_t skipped) {
    Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped));
  }

  sock_fprog Get() { return {count_, instructions_}; }

 private:
  void Add(sock_filter instruction) { instructions_[count_++] = instruction; }

  sock_filter instructions_[kInstructionsMax];
  unsigned short count_ = 0;
};

constexpr uint32_t Refuse(int error) {
  return SECCOMP_RET_ERRNO | (static_cast<uint32_t>(error) & SECCOMP_RET_DATA);
}

// Loads the call's first argument. Little-endian: the low half comes first.
void LoadFirstArgument(uint32_t call, Program* program) {
  program->SkipUnlessEqual(call, 4);
  program->Load(offsetof(seccomp_data, args[0]));
}

void RefuseNewNamespaces(uint32_t call, Program* program) {
  LoadFirstArgument(call, program);
  program->IfHas(AllNewNamespaces());
  program->Answer(Refuse(EPERM));
  program->Answer(SECCOMP_RET_ALLOW);
}

void RefuseArgument(const common::RefusedArgument& refused, Program* program) {
  LoadFirstArgument(refused.call.number, program);
  program->IfEqual(refused.first);
  program->Answer(Refuse(EPERM));
  program->Answer(SECCOMP_RET_ALLOW);
}

}  // namespace

int FilterCalls() {
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  // The numbers mean other calls on another architecture, so 32-bit programs do not run in the
  // sandbox.
  program.IfNotEqual(kArchitecture);
  program.Answer(Refuse(EPERM));
  program.Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  program.IfAtLeast(kX32Calls);
  program.Answer(Refuse(EPERM));
#endif
  program.IfEqual(common::kUnknownCall.number);
  program.Answer(Refuse(ENOSYS));
  for (const common::RefusedCall& call : common::kRefusedCalls) {
    program.IfEqual(call.number);
    program.Answer(Refuse(EPERM));
  }
  for (const common::RefusedCall& call : common::kRefusedWithNewNamespaces) {
    RefuseNewNamespaces(call.number, &program);
  }
  for (const common::RefusedArgument& refused : common::kRefusedArguments) {
    RefuseArgument(refused, &program);
  }
  program.Answer(SECCOMP_RET_ALLOW);
  const sock_fprog compiled = program.Get();
  // Without SPEC_ALLOW older kernels turn off speculation for the rank, which slows it down.
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &compiled) == 0)
    return 0;
  return errno;
}

}  // namespace muster::shim
