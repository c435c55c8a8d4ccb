// The parts of the kernel that no confined rank may use. The shim's filter (shim/call_filter.h) and the
// container runtime's (worker/containers/bundle.h) are both built from this list.
#pragma once

#include <linux/ioprio.h>
#include <linux/sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstdint>

namespace muster::common {

struct RefusedCall {
  const char* name;
  uint32_t number;
};

#define MUSTER_REFUSED(call) \
  { #call, SYS_##call }
// Refused with EPERM, whatever their arguments are.
inline constexpr RefusedCall kRefusedCalls[] = {
    // mounts
    MUSTER_REFUSED(mount),
    MUSTER_REFUSED(umount2),
    MUSTER_REFUSED(pivot_root),
    MUSTER_REFUSED(chroot),
    MUSTER_REFUSED(move_mount),
    MUSTER_REFUSED(open_tree),
    MUSTER_REFUSED(fsopen),
    MUSTER_REFUSED(fsconfig),
    MUSTER_REFUSED(fsmount),
    MUSTER_REFUSED(fspick),
    MUSTER_REFUSED(mount_setattr),
    {"open_tree_attr", 467},  // newer than these headers
    // other namespaces, and files by handle around every directory's permissions
    MUSTER_REFUSED(setns),
    MUSTER_REFUSED(open_by_handle_at),
    MUSTER_REFUSED(fanotify_init),
    // the kernel itself
    MUSTER_REFUSED(kexec_load),
    MUSTER_REFUSED(kexec_file_load),
    MUSTER_REFUSED(init_module),
    MUSTER_REFUSED(finit_module),
    MUSTER_REFUSED(delete_module),
    MUSTER_REFUSED(bpf),
    MUSTER_REFUSED(perf_event_open),
    MUSTER_REFUSED(userfaultfd),
    MUSTER_REFUSED(syslog),
    MUSTER_REFUSED(lookup_dcookie),
    // keys are shared by all processes of a user
    MUSTER_REFUSED(add_key),
    MUSTER_REFUSED(request_key),
    MUSTER_REFUSED(keyctl),
    // a second way to most other calls, which a filter would not see
    MUSTER_REFUSED(io_uring_setup),
    MUSTER_REFUSED(io_uring_enter),
    MUSTER_REFUSED(io_uring_register),
    // the machine
    MUSTER_REFUSED(reboot),
    MUSTER_REFUSED(swapon),
    MUSTER_REFUSED(swapoff),
    MUSTER_REFUSED(acct),
    MUSTER_REFUSED(quotactl),
    MUSTER_REFUSED(quotactl_fd),
    MUSTER_REFUSED(settimeofday),
    MUSTER_REFUSED(clock_settime),
    MUSTER_REFUSED(sethostname),
    MUSTER_REFUSED(setdomainname),
    MUSTER_REFUSED(vhangup),
#if defined(__x86_64__)
    MUSTER_REFUSED(iopl),
    MUSTER_REFUSED(ioperm),
    MUSTER_REFUSED(uselib),
    MUSTER_REFUSED(ustat),
    MUSTER_REFUSED(sysfs),
    MUSTER_REFUSED(_sysctl),
    MUSTER_REFUSED(create_module),
    MUSTER_REFUSED(get_kernel_syms),
    MUSTER_REFUSED(query_module),
    MUSTER_REFUSED(nfsservctl),
#endif
};

// Refused with EPERM if the first argument has one of these bits.
inline constexpr RefusedCall kRefusedWithNewNamespaces[] = {MUSTER_REFUSED(clone),
                                                            MUSTER_REFUSED(unshare)};
inline constexpr uint32_t kNewNamespaces[] = {CLONE_NEWNS,     CLONE_NEWUSER, CLONE_NEWPID,
                                              CLONE_NEWNET,    CLONE_NEWIPC,  CLONE_NEWUTS,
                                              CLONE_NEWCGROUP, CLONE_NEWTIME};

// Refused with EPERM if the first argument is this value: it names all processes of an account,
// including other jobs'.
struct RefusedArgument {
  RefusedCall call;
  uint32_t first;
};
inline constexpr RefusedArgument kRefusedArguments[] = {
    {MUSTER_REFUSED(setpriority), PRIO_USER}, {MUSTER_REFUSED(ioprio_set), IOPRIO_WHO_USER}};

// Refused with ENOSYS: its flags are in memory, which a filter cannot read. libc falls back to
// clone.
inline constexpr RefusedCall kUnknownCall = MUSTER_REFUSED(clone3);
#undef MUSTER_REFUSED

// The kernel's own files that a rank finds empty, and those that it may only read, whatever its account is.
inline constexpr const char* kMaskedPaths[] = {
    "/proc/kcore",       "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/sched_debug", "/proc/scsi", "/proc/acpi",          "/sys/firmware"};
inline constexpr const char* kReadOnlyPaths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                                 "/proc/sysrq-trigger"};

}  // namespace muster::common
