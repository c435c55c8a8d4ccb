#include "client/peer_words.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "common/device_kinds.h"
#include "common/word_list.h"

namespace muster::client {
namespace {

struct Alias {
  std::string_view peer;
  std::string_view ours;
};
constexpr Alias kPeerCommands[] = {
    {"ps", "ls"},
    {"list", "ls"},
    {"jobs", "ls"},
    {"status", "ls"},
    {"squeue", "ls"},
    {"get", "ls"},
    {"queue", "ls"},
    {"top", "ls"},
    {"describe", "show"},
    {"inspect", "show"},
    {"info", "show"},
    {"scontrol", "show"},
    {"delete", "rm"},
    {"remove", "rm"},
    {"kill", "cancel"},
    {"stop", "cancel"},
    {"scancel", "cancel"},
    {"sbatch", "submit"},
    {"apply", "submit"},
    {"create", "submit"},
    {"launch", "run"},
    {"srun", "run"},
    {"mpirun", "run"},
    {"torchrun", "run"},
    {"log", "logs"},
    {"tail", "logs"},
    {"retry", "rerun"},
    {"restart", "rerun"},
    {"resubmit", "rerun"},
    {"node", "nodes ls"},
    {"sinfo", "nodes ls"},
    {"checkpoint", "ckpt ls"},
    {"checkpoints", "ckpt ls"},
    {"start", "up"},
    {"ctx", "context ls"},
    {"lint", "validate"},
    {"check", "validate"},
    {"cordon", "nodes drain"},
    {"uncordon", "nodes undrain"},
    {"drain", "nodes drain"},
    {"undrain", "nodes undrain"},
    {"metric", "metrics"},
    {"event", "events"},
    {"ckpt list", "ckpt ls"},
    {"ckpt download", "ckpt pull"},
    {"ckpt delete", "ckpt rm"},
    {"nodes list", "nodes ls"},
    {"context list", "context ls"},
    {"context set", "context use"},
    {"context delete", "context rm"},
    {"reason", "why"},
    {"diagnose", "why"},
    {"attach", "logs"},
    {"sattach", "logs"},
    {"stacks", "stack"},
    {"py-spy", "stack"},
};
constexpr Alias kPeerFlags[] = {
    {"np", "-n"},
    {"nproc", "-n"},
    {"num-processes", "-n"},
    {"ntasks", "-n"},
    {"nprocs", "-n"},
    {"processes", "-n"},
    {"replicas", "-n"},
    {"ranks", "-n"},
    {"nproc-per-node", "-n"},
    {"num-nodes", "--nodes"},
    {"nnodes", "--nodes"},
    {"num-machines", "--nodes"},
    {"accelerator", "--devices"},
    {"accelerators", "--devices"},
    {"gres", "--devices"},
    {"max-restarts", "--restarts"},
    {"retries", "--restarts"},
    {"job-name", "--name"},
    {"chdir", "--workdir"},
    {"cwd", "--workdir"},
    {"envs", "--env"},
    {"export", "--env"},
    {"format", "--output"},
    {"json", "--output"},
    {"follow-logs", "--follow"},
    {"watch-only", "--watch"},
    {"detached", "--detach"},
    {"d", "--detach"},
    {"time", "--timeout"},
    {"lines", "--tail"},
};
constexpr Absent kAbsent[] = {
    {"mem|memory|mem-per-cpu|mem-per-gpu|shm|shm-size",
     "a job does not ask for memory, its ranks share what their node has",
     "leave it out; `jobctl nodes show NODE` says how much there is. Memory of devices: --devices "
     "'gpu>=64GB'"},
    {"time|time-limit|walltime|max-duration",
     "the time limit of a job is a key of the job file, max_duration",
     "jobctl submit --set max_duration=1h -- COMMAND"},
    {"cpus|cpus-per-task|cpus-per-gpu|cpus-per-rank|cores",
     "a job does not ask for cores, its ranks share what their node has",
     "leave it out; -e OMP_NUM_THREADS=4 sets the threads of each rank"},
    {"partition|queue|account|qos|resource-pool", "there is one queue",
     "leave it out; jobctl submit --priority P decides who goes first"},
    {"image|image-id|container|container-image|docker",
     "ranks are processes of their node, not containers",
     "leave it out; install on the nodes what the job needs"},
    {"files|file-mounts", "nothing is copied to the nodes",
     "keep the files where every node sees them, and name the place as workdir"},
    {"setup", "nothing runs before the ranks",
     "leave it out, and begin the command with it: sh -c 'SETUP && exec PROGRAM'"},
    {"virtual-local-rank", "it is a key of the job file",
     "jobctl submit --set virtual_local_rank=true -- COMMAND"},
};
template <size_t kCount>
std::string_view Lookup(const Alias (&table)[kCount], std::string_view name) {
  for (const Alias& alias : table) {
    if (alias.peer == name) return alias.ours;
  }
  return {};
}

}  // namespace

const Absent* FindAbsent(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const auto found =
      std::find_if(std::begin(kAbsent), std::end(kAbsent),
                   [&](const Absent& absent) { return common::HasWord(absent.names, dashed); });
  return found == std::end(kAbsent) ? nullptr : found;
}

std::string_view PeerCommand(std::string_view name) { return Lookup(kPeerCommands, name); }
std::string_view PeerFlag(std::string_view name) {
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    if (!kind.is_host && name == kind.plural) return "--devices";
  }
  return Lookup(kPeerFlags, name);
}

}  // namespace muster::client
