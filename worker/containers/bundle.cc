#include "worker/containers/bundle.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/kernel/closed_to_ranks.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using nlohmann::json;

json Refuse(json names, int error) {
  return {{"names", std::move(names)}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", error}};
}

// `compare`: the operator of the condition on the first argument.
json RefuseWith(const char* name, uint64_t first, const char* compare) {
  json rule = Refuse({name}, EPERM);
  rule["args"] =
      json::array({{{"index", 0}, {"value", first}, {"valueTwo", first}, {"op", compare}}});
  return rule;
}

// The runtime skips names that it does not know.
json CallFilter() {
  json calls = json::array();
  json names = json::array();
  for (const common::RefusedCall& call : common::kRefusedCalls) names.push_back(call.name);
  calls.push_back(Refuse(std::move(names), EPERM));
  calls.push_back(Refuse({common::kUnknownCall.name}, ENOSYS));
  for (const common::RefusedCall& call : common::kRefusedWithNewNamespaces) {
    for (const uint32_t flag : common::kNewNamespaces) {
      calls.push_back(RefuseWith(call.name, flag, "SCMP_CMP_MASKED_EQ"));
    }
  }
  for (const common::RefusedArgument& refused : common::kRefusedArguments) {
    calls.push_back(RefuseWith(refused.call.name, refused.first, "SCMP_CMP_EQ"));
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
  // Recursive: the options also hold for other file systems that are mounted below it.
  json options = json::array({"rbind", "rnosuid"});
  if (!mount.is_as_mounted) options.push_back(mount.read_only ? "rro" : "rw");
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

json Namespaces(const Bundle& bundle) {
  json namespaces = json::array({{{"type", "mount"}}, {{"type", "uts"}}});
  if (!bundle.processes.empty())
    namespaces.push_back({{"type", "pid"}, {"path", bundle.processes}});
  return namespaces;
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
                  {{"namespaces", Namespaces(bundle)},
                   {"seccomp", CallFilter()},
                   {"maskedPaths", Texts(common::kMaskedPaths)},
                   {"readonlyPaths", Texts(common::kReadOnlyPaths)}}}};
  if (bundle.hooks.empty()) return config.dump(1, ' ', false, json::error_handler_t::replace);
  json hooks = json::array();
  for (const BundleHook& hook : bundle.hooks) {
    hooks.push_back({{"path", hook.path}, {"args", hook.args}, {"env", hook.env}});
  }
  config["hooks"] = {{"createContainer", std::move(hooks)}};
  return config.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace muster::worker
