// Driver, toolkit and framework: each may be fine, but not work with the others.
#include <charconv>

#include "client/doctor/checks.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client::doctor {
namespace {

using common::Counted;
using common::StrCat;

// The oldest driver that runs programs of a CUDA release. Source: NVIDIA, CUDA Compatibility,
// "Minor Version Compatibility", tables 1 and 2.
struct OldestDriver {
  int cuda_major;
  int cuda_minor;  // and later ones of the same major
  std::string_view driver;
};
constexpr OldestDriver kOldestDrivers[] = {
    {13, 0, "580"},    {12, 0, "525.60.13"}, {11, 0, "450.80.02"},
    {10, 2, "440.33"}, {10, 1, "418.39"},    {10, 0, "410.48"},
};

// Removes and returns the next number of a version like "525.60.13"; 0 at its end.
int TakeNumber(std::string_view* version) {
  int number = 0;
  const char* end = version->data() + version->size();
  const auto [stop, error] = std::from_chars(version->data(), end, number);
  version->remove_prefix(static_cast<size_t>(stop - version->data()));
  if (!version->empty()) version->remove_prefix(1);
  return error == std::errc() ? number : 0;
}

bool IsOlder(std::string_view version, std::string_view than) {
  while (!version.empty() || !than.empty()) {
    const int ours = TakeNumber(&version);
    const int theirs = TakeNumber(&than);
    if (ours != theirs) return ours < theirs;
  }
  return false;
}

// Empty if not known: a CUDA older or newer than this table.
std::string_view OldestDriverFor(std::string_view cuda) {
  const int major = TakeNumber(&cuda);
  const int minor = TakeNumber(&cuda);
  for (const OldestDriver& row : kOldestDrivers) {
    if (row.cuda_major == major && row.cuda_minor <= minor) return row.driver;
  }
  return "";
}

// The driver that `cuda` would need and this machine lacks, or empty.
std::string_view DriverMissing(std::string_view cuda, const DeviceFacts& devices) {
  const std::string_view needed = cuda.empty() ? "" : OldestDriverFor(cuda);
  const bool too_old =
      !needed.empty() && !devices.nvidia_driver.empty() && IsOlder(devices.nvidia_driver, needed);
  return too_old ? needed : "";
}

// Software that is too new for the driver is broken, unless the compatibility libraries may help.
Verdict TooNew(const DeviceFacts& devices, const std::string& what, const std::string& fix) {
  if (!devices.has_cuda_compat) return {Grade::kBroken, what, fix};
  return {Grade::kWarning, StrCat(what, "; /usr/local/cuda/compat may make up for it"), fix};
}

int MajorOf(std::string_view version) { return TakeNumber(&version); }

Verdict CpuOnlyTorch(const MachineFacts& facts) {
  const DeviceFacts& devices = facts.devices;
  return {Grade::kBroken,
          StrCat(facts.python.torch, " has no CUDA: it ignores ",
                 Counted(static_cast<uint64_t>(devices.nvidia_nodes), "NVIDIA device")),
          StrCat(facts.python.program,
                 " -m pip install --force-reinstall torch, without an index of CPU-only wheels")};
}

}  // namespace

Verdict JudgeNvidiaDriver(const MachineFacts& facts) {
  const DeviceFacts& devices = facts.devices;
  const auto nodes = static_cast<uint64_t>(devices.nvidia_nodes);
  if (devices.nvidia_driver.empty() && nodes == 0) return {Grade::kGood, "no NVIDIA device"};
  if (devices.nvidia_driver.empty()) {
    return {Grade::kBroken, StrCat("not loaded, but /dev has ", Counted(nodes, "NVIDIA device")),
            "sudo modprobe nvidia; if that fails, dmesg | grep -i nvidia tells why"};
  }
  if (nodes == 0) {
    return {Grade::kWarning, StrCat(devices.nvidia_driver, " is loaded, but /dev has no device"),
            "nvidia-modprobe -c 0 on the host; in a container, give it the GPUs (--gpus all)"};
  }
  return {Grade::kGood, StrCat(devices.nvidia_driver, ", ", Counted(nodes, "device"))};
}

Verdict JudgeCudaToolkit(const MachineFacts& facts) {
  const std::string& toolkit = facts.devices.cuda_toolkit;
  if (toolkit.empty()) return {Grade::kGood, "none (only needed to compile)"};
  if (const std::string_view needed = DriverMissing(toolkit, facts.devices); !needed.empty()) {
    return TooNew(facts.devices,
                  StrCat(toolkit, ": programs that it compiles need driver ", needed, ", and ",
                         facts.devices.nvidia_driver, " is loaded"),
                  StrCat("install driver ", needed, " or newer, or an older toolkit"));
  }
  const std::string& cuda = facts.python.torch_cuda;
  if (!cuda.empty() && MajorOf(cuda) != MajorOf(toolkit)) {
    return {Grade::kWarning,
            StrCat(toolkit, ", but torch is built for CUDA ", cuda,
                   ": extensions cannot be compiled for it"),
            StrCat("set CUDA_HOME to a toolkit ", MajorOf(cuda), ".x before you compile one")};
  }
  return {Grade::kGood, toolkit};
}

Verdict JudgeAscend(const MachineFacts& facts) {
  const DeviceFacts& devices = facts.devices;
  const auto nodes = static_cast<uint64_t>(devices.ascend_nodes);
  if (nodes == 0 && devices.ascend_driver.empty()) return {Grade::kGood, "no Ascend device"};
  if (devices.ascend_driver.empty()) {
    return {
        Grade::kBroken,
        StrCat("no driver in /usr/local/Ascend/driver, but /dev has ", Counted(nodes, "device")),
        "install the Ascend driver; in a container, mount /usr/local/Ascend/driver"};
  }
  if (nodes == 0) {
    return {Grade::kWarning,
            StrCat("driver ", devices.ascend_driver, ", but /dev has no davinci device"),
            "in a container, pass it the devices (--device /dev/davinci0 …)"};
  }
  if (devices.ascend_toolkit.empty()) {
    return {Grade::kWarning, StrCat("driver ", devices.ascend_driver, ", but no CANN toolkit"),
            "install the CANN toolkit, then source its set_env.sh"};
  }
  return {Grade::kGood, StrCat("driver ", devices.ascend_driver, ", CANN ", devices.ascend_toolkit,
                               ", ", Counted(nodes, "device"))};
}

Verdict JudgeNpuPorts(const MachineFacts& facts) {
  if (facts.devices.ascend_nodes == 0) return {Grade::kGood, "no Ascend device"};
  const common::DeviceKind& npu = *common::FindDeviceKind("npu");
  const common::PortSpan blocks = {npu.first_port, npu.last_port};
  const common::PortSettings settings = {
      .ephemeral = {facts.network.ephemeral_first, facts.network.ephemeral_last},
      .reserved = facts.network.reserved};
  const common::PortSpan open = common::OpenToConnections(settings, blocks);
  const std::string range = StrCat(blocks.first, "-", blocks.last);
  if (open.first == 0) return {Grade::kGood, StrCat(range, ": kept for HCCL")};
  return {Grade::kWarning,
          StrCat(range, ": the kernel may give ", open.first, "-", open.last,
                 " to outgoing connections before HCCL binds them"),
          StrCat("sudo ", common::ReserveCommand(settings, blocks),
                 "; and the same in /etc/sysctl.d/90-muster-npu.conf, to survive a reboot")};
}

Verdict JudgeTorch(const MachineFacts& facts) {
  const PythonFacts& python = facts.python;
  const DeviceFacts& devices = facts.devices;
  if (!python.trouble.empty()) {
    return {Grade::kWarning, StrCat(python.program, " ", python.trouble),
            StrCat(python.program, " -c 'import torch'")};
  }
  if (python.program.empty()) return {Grade::kGood, "no python in PATH"};
  if (python.torch.empty()) return {Grade::kGood, StrCat("not installed in ", python.program)};
  if (devices.nvidia_nodes > 0 && python.torch_cuda.empty() && python.torch_hip.empty())
    return CpuOnlyTorch(facts);
  if (devices.ascend_nodes > 0 && python.torch_npu.empty()) {
    return {Grade::kBroken,
            StrCat(python.torch, " has no torch_npu: it ignores ",
                   Counted(static_cast<uint64_t>(devices.ascend_nodes), "Ascend device")),
            StrCat(python.program, " -m pip install torch_npu of the same version as torch")};
  }
  const std::string& cuda = python.torch_cuda;
  if (const std::string_view needed = DriverMissing(cuda, devices); !needed.empty()) {
    return TooNew(
        devices,
        StrCat(python.torch, " is built for CUDA ", cuda, ", which needs driver ", needed, "; ",
               devices.nvidia_driver, " is loaded"),
        StrCat("install driver ", needed, " or newer, or a torch built for an older CUDA"));
  }
  // "2.4.1+cu124" already names its CUDA.
  const bool named = python.torch.find('+') != std::string::npos;
  return {Grade::kGood,
          StrCat(python.torch, cuda.empty() || named ? "" : StrCat(" for CUDA ", cuda),
                 python.torch_npu.empty() ? "" : StrCat(", torch_npu ", python.torch_npu), " (",
                 python.program, ")")};
}

Verdict JudgePySpy(const MachineFacts& facts) {
  const PythonFacts& python = facts.python;
  if (python.program.empty()) return {Grade::kGood, "no python in PATH"};
  if (!python.py_spy.empty()) return {Grade::kGood, python.py_spy};
  return {Grade::kWarning, "not installed: jobctl stack shows no Python functions",
          StrCat(python.program, " -m pip install py-spy (muster-train[stacks] brings it)")};
}

}  // namespace muster::client::doctor
