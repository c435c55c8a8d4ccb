#include "shim/call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

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
constexpr uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                                    CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME;
constexpr uint32_t kOpenTreeAttr = 467;  // newer than these headers

constexpr uint32_t kRefused[] = {
    // mounts
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    kOpenTreeAttr,
    // other namespaces, and files by handle around every directory's permissions
    SYS_setns,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    // the kernel itself
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_syslog,
    SYS_lookup_dcookie,
    // keys are shared by all processes of a user
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // a second way to most other calls, which this filter would not see
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    // the machine
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
    SYS__sysctl,
    SYS_create_module,
    SYS_get_kernel_syms,
    SYS_query_module,
    SYS_nfsservctl,
#endif
};

constexpr size_t kInstructionsMax = 24 + 2 * std::size(kRefused);

class Program {
 public:
  void Load(size_t offset) {
    Add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  void Answer(uint32_t action) { Add(BPF_STMT(BPF_RET | BPF_K, action)); }
  // The next instruction is skipped unless the loaded value is that, or is not, is at least that,
  // has one of those bits.
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

void RefuseNewNamespaces(uint32_t call, Program* program) {
  // Their flags are the first argument. Little-endian: its low half comes first.
  program->SkipUnlessEqual(call, 4);
  program->Load(offsetof(seccomp_data, args[0]));
  program->IfHas(kNewNamespaces);
  program->Answer(Refuse(EPERM));
  program->Answer(SECCOMP_RET_ALLOW);
}

}  // namespace

int FilterCalls() {
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  // Another architecture's numbers mean other calls: 32-bit programs do not run in the sandbox.
  program.IfNotEqual(kArchitecture);
  program.Answer(Refuse(EPERM));
  program.Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  program.IfAtLeast(kX32Calls);
  program.Answer(Refuse(EPERM));
#endif
  // Its flags lie in memory, where a filter cannot look. libc falls back on clone.
  program.IfEqual(SYS_clone3);
  program.Answer(Refuse(ENOSYS));
  for (const uint32_t call : kRefused) {
    program.IfEqual(call);
    program.Answer(Refuse(EPERM));
  }
  RefuseNewNamespaces(SYS_clone, &program);
  RefuseNewNamespaces(SYS_unshare, &program);
  program.Answer(SECCOMP_RET_ALLOW);
  const sock_fprog compiled = program.Get();
  // Without SPEC_ALLOW older kernels turn off speculation for the rank, which slows it down.
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &compiled) == 0)
    return 0;
  return errno;
}

}  // namespace muster::shim
