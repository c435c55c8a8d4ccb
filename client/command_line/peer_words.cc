#include "client/command_line/peer_words.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "common/device_kinds.h"
#include "common/text/word_list.h"

namespace muster::client {
namespace {

struct WordAlias {
  std::string_view peer;
  std::string_view ours;
};
constexpr WordAlias kPeerCommands[] = {
    {"ps", "ls"},
    {"list", "ls"},
    {"jobs", "ls"},
    {"status", "ls"},
    {"squeue", "ls"},
    {"get", "ls"},
    {"queue", "ls"},
    {"sstat", "top"},
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
    {"sattach", "attach"},
    {"stacks", "stack"},
    {"py-spy", "stack"},
};
constexpr WordAlias kPeerFlags[] = {
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
    {"time-limit", "--time"},
    {"walltime", "--time"},
    {"max-duration", "--time"},
    {"max-restarts", "--restarts"},
    {"retries", "--restarts"},
    {"cpus-per-task", "--cpus"},
    {"cpus-per-rank", "--cpus"},
    {"cores", "--cpus"},
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
    {"image-id", "--image"},
    {"container", "--image"},
    {"container-image", "--image"},
    {"docker", "--image"},
    {"files", "--sync"},
    {"file-mounts", "--sync"},
    {"upload", "--sync"},
    {"working-dir", "--sync"},
    {"artifacts", "--outputs"},
    {"results", "--outputs"},
    {"fetch", "--outputs"},
};
constexpr Absent kAbsentCommands[] = {
    {"hold", "a queued job is not held by hand",
     "jobctl cancel JOB, and when it may start: jobctl rerun JOB"},
    {"suspend|pause", "a job is not suspended, as its ranks would keep their devices' memory",
     "jobctl cancel JOB, and to continue: jobctl rerun JOB --from last"},
    {"resume|unsuspend|requeue", "a job that is over continues as a new one",
     "jobctl rerun JOB --from last"},
    {"shell|bash|sh|ssh|attach-shell", "a shell runs in a rank's place",
     "jobctl exec -it JOB -- bash"},
    {"salloc|alloc|reserve", "devices are not allocated without a command",
     "jobctl run -n 2 -- sleep 1h, and from another terminal: jobctl exec -it @last -- bash"},
    {"sacct|history|accounting", "the record of finished jobs is in several places",
     "jobctl ls -a, jobctl show JOB --ledger, jobctl audit"},
    {"sprio|priority", "the order of the queue has its reasons", "jobctl why JOB"},
};
constexpr Absent kAbsent[] = {
    {"mem|mem-per-cpu|mem-per-gpu", "memory is limited per rank, not per node, processor or device",
     "--memory 4GiB is the most that each rank may use. For device memory: --devices 'gpu>=64GB'"},
    {"shm|shm-size", "this is a key of the job file",
     "jobctl submit --set shm=8GiB --image IMAGE -- COMMAND"},
    {"mount|mounts|volume|bind|v", "this is a key of the job file",
     "jobctl submit --set 'mounts=/data:/data:ro' --image IMAGE -- COMMAND"},
    {"cpus-per-gpu", "processors are limited per rank",
     "--cpus 4 is the most that each rank may use"},
    {"partition|queue|account|qos|resource-pool", "there is one queue",
     "omit it; jobctl submit --priority P decides which job goes first"},
    {"gres|gpu|gpus|num-gpus|tres", "devices are asked for by kind and number",
     "--devices gpu:N for N in all, one for each rank unless -n tells how many ranks; in a job "
     "file "
     "resources: {devices: gpu:N}"},
    {"webhook|mail-user|mail-type", "notifications are a key of the job file, notify",
     "notify: [{on: [failure], webhook: \"https://HOST/PATH\"}]"},
    {"virtual-local-rank", "this is a key of the job file",
     "jobctl submit --set virtual_local_rank=true -- COMMAND"},
};
template <size_t kCount>
std::string_view Lookup(const WordAlias (&table)[kCount], std::string_view name) {
  for (const WordAlias& alias : table) {
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

const Absent* FindAbsentCommand(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kAbsentCommands), std::end(kAbsentCommands),
                   [&](const Absent& absent) { return common::HasWord(absent.names, name); });
  return found == std::end(kAbsentCommands) ? nullptr : found;
}

std::string_view PeerCommand(std::string_view name) { return Lookup(kPeerCommands, name); }
std::string_view PeerFlag(std::string_view name) {
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    if (!kind.is_host && name == kind.plural) return "--devices";
  }
  return Lookup(kPeerFlags, name);
}

}  // namespace muster::client
