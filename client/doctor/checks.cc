#include "client/doctor/checks.h"

namespace muster::client::doctor {
namespace {

constexpr Check kChecks[] = {
    {"nvidia driver", JudgeNvidiaDriver},
    {"cuda toolkit", JudgeCudaToolkit},
    {"ascend", JudgeAscend},
    {"npu ports", JudgeNpuPorts},
    {"torch", JudgeTorch},
    {"py-spy", JudgePySpy},
    {"host name", JudgeHostname},
    {"ports", JudgePorts},
    {"clock", JudgeClock},
    {"disk: data", JudgeDataDisk},
    {"disk: /tmp", JudgeTempDisk},
    {"shared memory", JudgeSharedMemory},
    {"open files", JudgeOpenFiles},
    {"processes", JudgeProcesses},
    {"locked memory", JudgeLockedMemory},
    {"core files", JudgeCoreFiles},
    {"cgroups", JudgeKilling},
    {"out of memory", JudgeOutOfMemory},
    {"programs", JudgePrograms},
    {"coordinator", JudgeCoordinator},
    {"all-reduce", JudgeAllReduce},
};

}  // namespace

std::span<const Check> Checks() { return kChecks; }

}  // namespace muster::client::doctor
