#include "worker/containers/bundle.h"

#include <linux/sched.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/strings.h"

namespace muster::worker {
namespace {

using nlohmann::json;

// shim/call_filter.cc refuses the same, to ranks without a container. Names that the runtime does not
// know it passes over.
constexpr const char* kRefused[] = {"mount",
                                    "umount2",
                                    "pivot_root",
                                    "chroot",
                                    "move_mount",
                                    "open_tree",
                                    "fsopen",
                                    "fsconfig",
                                    "fsmount",
                                    "fspick",
                                    "mount_setattr",
                                    "open_tree_attr",
                                    "setns",
                                    "open_by_handle_at",
                                    "fanotify_init",
                                    "kexec_load",
                                    "kexec_file_load",
                                    "init_module",
                                    "finit_module",
                                    "delete_module",
                                    "bpf",
                                    "perf_event_open",
                                    "userfaultfd",
                                    "syslog",
                                    "lookup_dcookie",
                                    "add_key",
                                    "request_key",
                                    "keyctl",
                                    "io_uring_setup",
                                    "io_uring_enter",
                                    "io_uring_register",
                                    "reboot",
                                    "swapon",
                                    "swapoff",
                                    "acct",
                                    "quotactl",
                                    "quotactl_fd",
                                    "settimeofday",
                                    "clock_settime",
                                    "sethostname",
                                    "setdomainname",
                                    "vhangup",
                                    "iopl",
                                    "ioperm",
                                    "uselib",
                                    "ustat",
                                    "sysfs",
                                    "_sysctl",
                                    "create_module",
                                    "get_kernel_syms",
                                    "query_module",
                                    "nfsservctl"};
constexpr uint64_t kNewNamespaces[] = {CLONE_NEWNS,  CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET,
                                       CLONE_NEWIPC, CLONE_NEWUTS,  CLONE_NEWCGROUP, CLONE_NEWTIME};
constexpr const char* kMaskedPaths[] = {
    "/proc/kcore",       "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/sched_debug", "/proc/scsi", "/proc/acpi",          "/sys/firmware"};
constexpr const char* kReadOnlyPaths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                          "/proc/sysrq-trigger"};

json Refuse(json names, int error) {
  return {{"names", std::move(names)}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", error}};
}

json CallFilter() {
  json calls = json::array();
  json names = json::array();
  for (const char* name : kRefused) names.push_back(name);
  calls.push_back(Refuse(std::move(names), EPERM));
  // Its flags lie in memory, where a filter cannot look. libc falls back on clone.
  calls.push_back(Refuse({"clone3"}, ENOSYS));
  for (const uint64_t flag : kNewNamespaces) {
    json rule = Refuse({"clone", "unshare"}, EPERM);
    rule["args"] = json::array(
        {{{"index", 0}, {"value", flag}, {"valueTwo", flag}, {"op", "SCMP_CMP_MASKED_EQ"}}});
    calls.push_back(std::move(rule));
  }
#if defined(__x86_64__)
  const char* const architecture = "SCMP_ARCH_X86_64";
#else
  const char* const architecture = "SCMP_ARCH_AARCH64";
#endif
  return {{"defaultAction", "SCMP_ACT_ALLOW"},
          {"architectures", json::array({architecture})},
          {"syscalls", std::move(calls)}};
}

json Mount(const std::string& target, const char* type, const std::string& source, json options) {
  return {
      {"destination", target}, {"type", type}, {"source", source}, {"options", std::move(options)}};
}

json Bind(const BundleMount& mount) {
  // Recursive: other file systems that are mounted below it are no way around them.
  json options = json::array({"rbind", "rnosuid", mount.read_only ? "rro" : "rw"});
  if (!mount.is_device) options.push_back("rnodev");
  return Mount(mount.target, "bind", mount.source, std::move(options));
}

json Mounts(const Bundle& bundle) {
  json mounts = json::array();
  mounts.push_back(Mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}));
  mounts.push_back(
      Mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}));
  mounts.push_back(Mount("/dev/pts", "devpts", "devpts",
                         {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}));
  mounts.push_back(Mount("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}));
  mounts.push_back(Mount("/dev/shm", "bind", bundle.shm, {"bind", "nosuid", "nodev", "rw"}));
  mounts.push_back(Mount("/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}));
  for (const std::string& path : bundle.covers) {
    mounts.push_back(
        Mount(path, "tmpfs", "tmpfs", {"nosuid", "nodev", "noexec", "mode=755", "size=64k"}));
  }
  for (const BundleMount& mount : bundle.mounts) mounts.push_back(Bind(mount));
  return mounts;
}

json Process(const Bundle& bundle) {
  json none = json::array();
  json capabilities;
  for (const char* set : {"bounding", "effective", "inheritable", "permitted", "ambient"}) {
    capabilities[set] = none;
  }
  return {{"terminal", false},
          {"user", {{"uid", bundle.uid}, {"gid", bundle.gid}, {"additionalGids", bundle.groups}}},
          {"args", bundle.argv},
          {"env", bundle.env},
          {"cwd", bundle.workdir},
          {"capabilities", std::move(capabilities)},
          {"noNewPrivileges", true}};
}

template <size_t kCount>
json Texts(const char* const (&texts)[kCount]) {
  json list = json::array();
  for (const char* text : texts) list.push_back(text);
  return list;
}

}  // namespace

std::string BundleJson(const Bundle& bundle) {
  json config = {{"ociVersion", "1.0.2"},
                 {"process", Process(bundle)},
                 {"root", {{"path", bundle.root}, {"readonly", false}}},
                 {"mounts", Mounts(bundle)},
                 {"linux",
                  {{"namespaces", json::array({{{"type", "mount"}}, {{"type", "uts"}}})},
                   {"seccomp", CallFilter()},
                   {"maskedPaths", Texts(kMaskedPaths)},
                   {"readonlyPaths", Texts(kReadOnlyPaths)}}}};
  if (bundle.hooks.empty()) return config.dump(1, ' ', false, json::error_handler_t::replace);
  json hooks = json::array();
  for (const BundleHook& hook : bundle.hooks) {
    hooks.push_back({{"path", hook.path}, {"args", hook.args}, {"env", hook.env}});
  }
  config["hooks"] = {{"createContainer", std::move(hooks)}};
  return config.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace muster::worker
