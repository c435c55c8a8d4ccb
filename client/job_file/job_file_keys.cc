#include <csignal>

#include "client/job_file/job_file.h"
#include "common/base/limits.h"
#include "common/device_kinds.h"
#include "common/job/rules.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

using v1::JobSpec;

constexpr JobKey kKeys[] = {
    {"name",
     KeyType::kString,
     "Name of the job; the coordinator appends its number. Default: two words",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_name(value.text); }},
    {"command",
     KeyType::kCommand,
     "The command of each rank: a list of arguments, or one string for `sh -c`. `${rank}` and "
     "`${local_rank}` "
     "in an argument are "
     "replaced",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_command()->Assign(value.list.begin(), value.list.end());
     }},
    {"workdir",
     KeyType::kString,
     "Working directory, absolute; must exist on every node. Default: the current directory of "
     "jobctl. With `sync`, the directory that is sent, also relative to the job file's. Default "
     "then: the job file's",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_workdir(value.text); }},
    {"sync", KeyType::kBoolean,
     "true: send the directory `workdir` with the job (--sync); .gitignore and .musterignore list "
     "what is left out. false: it is on the nodes already. Default: true for a coordinator on "
     "another host, unless `workdir` is absolute"},
    {"setup",
     KeyType::kScript,
     "What each node runs once before any rank starts, in the directory that was sent: a list of "
     "arguments, or a script for `/bin/sh -e -c` (--setup)",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_setup()->Assign(value.list.begin(), value.list.end());
     }},
    {"outputs",
     KeyType::kStringList,
     "Directories and files below the working directory that are kept when an attempt ends "
     "(--outputs)",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_outputs()->Assign(value.list.begin(), value.list.end());
     }},
    {"image",
     KeyType::kString,
     "The container image that the ranks run in (--image): docker.io/NAME@sha256:DIGEST, "
     "localhost/NAME or "
     "oci:/DIRECTORY. Default: none, the node's own files",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_container()->set_image(value.text);
     }},
    {"mounts", KeyType::kMounts,
     "Directories and files of the node that the ranks see in the container: "
     "`SOURCE[:TARGET[:ro]]`, absolute"},
    {"shm",
     KeyType::kSize,
     "Size of /dev/shm in the container. Default: the node's",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_container()->set_shm_bytes(static_cast<uint64_t>(value.number));
     }},
    {"env",
     KeyType::kStringMap,
     "Variables added to the environment of jobctl; which of that is sent: docs/operating.md, "
     "Environment",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       for (const auto& [name, text] : value.map) (*spec->mutable_env())[name] = text;
     }},
    {"clean_env", KeyType::kBoolean,
     "true: send only PATH, HOME, USER, SHELL, LANG, TZ and `env`. Default: false"},
    {"env_from", KeyType::kChoice,
     "`shell`: send all of the environment of jobctl, also to a coordinator on another host", 0, 0,
     "shell", nullptr},
    {"labels",
     KeyType::kStringMap,
     "Your own labels, for `jobctl ls -l`: up to 32 pairs with keys and values as in Kubernetes",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       for (const auto& [name, text] : value.map) (*spec->mutable_labels())[name] = text;
     }},
    {"project",
     KeyType::kString,
     "The project that the job belongs to; `jobctl project ls` lists them. Default: default",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_project(value.text); }},
    {"secrets",
     KeyType::kStringList,
     "Names of your secrets (`jobctl secret set`) that the ranks get as files in "
     "`$MUSTER_SECRETS_DIR`",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_secrets()->Assign(value.list.begin(), value.list.end());
     }},

    {"resources", KeyType::kSection, "How many ranks, on which devices"},
    {"resources.processes",
     KeyType::kInteger,
     "Ranks in total; nodes may get different numbers of them",
     1,
     common::kRanksMax,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_shape()->set_processes(static_cast<uint32_t>(value.number));
     }},
    {"resources.nodes",
     KeyType::kNodes,
     "Number of nodes, or MIN:MAX (with per_node): the number is decided at each start. Default: "
     "any",
     1,
     common::kNodesMax,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_shape()->set_min_nodes(static_cast<uint32_t>(value.number));
       spec->mutable_shape()->set_max_nodes(static_cast<uint32_t>(value.number2));
     }},
    {"resources.per_node",
     KeyType::kInteger,
     "Ranks on each node, instead of processes",
     1,
     common::kRanksMax,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_shape()->set_per_node(static_cast<uint32_t>(value.number));
     }},
    {"resources.devices", KeyType::kDevices,
     "A kind (KINDS) or a model (`h100`); `npu>=64GB` requires memory; `gpu:8` is the total for "
     "the "
     "job, divided evenly among the ranks, and the number of ranks if that is not given. Default: "
     "an "
     "accelerator if any node has one, otherwise cpu"},
    {"resources.cpus", KeyType::kCpus,
     "Processors that each rank may use at most (--cpus). A limit, not a reservation; nodes that "
     "cannot enforce it get no rank of the job. Default: none"},
    {"resources.memory", KeyType::kMemory,
     "Memory that each rank may use at most (--memory); it is killed beyond that. As for "
     "`resources.cpus`. Default: none"},

    {"priority",
     KeyType::kInteger,
     "Higher goes first; ties are broken by job number. Default: 0",
     job::kPriority.least,
     job::kPriority.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_priority(static_cast<int32_t>(value.number));
     }},
    {"restarts",
     KeyType::kInteger,
     "How many times a failed attempt is retried. Default: 0",
     job::kRestarts.least,
     job::kRestarts.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_restarts(static_cast<uint32_t>(value.number));
     }},
    {"node_loss_restarts",
     KeyType::kInteger,
     "The same for lost nodes. Default: 10",
     job::kNodeLossRestarts.least,
     job::kNodeLossRestarts.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_node_loss_restarts(static_cast<uint32_t>(value.number));
     }},
    {"on_node_loss", KeyType::kChoice, "`replace` the node, or `wait` for it. Default: replace", 0,
     0, "replace|wait",
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_on_node_loss(value.number == 0 ? v1::ON_NODE_LOSS_REPLACE : v1::ON_NODE_LOSS_WAIT);
     }},
    {"stop_after",
     KeyType::kDuration,
     "A node that loses contact with the coordinator stops its ranks after this time. Default: 10m",
     job::kStopAfterMs.least,
     job::kStopAfterMs.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_stop_after_ms(static_cast<uint32_t>(value.number));
     }},
    {"grace",
     KeyType::kDuration,
     "Between SIGTERM and SIGKILL. Default: 30s",
     job::kGraceMs.least,
     job::kGraceMs.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_grace_ms(static_cast<uint32_t>(value.number));
     }},
    {"max_duration",
     KeyType::kDuration,
     "Running time, over all attempts, after which the job is stopped as failed (--time). Default: "
     "none",
     job::kMaxDurationMs.least,
     job::kMaxDurationMs.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_max_duration_ms(static_cast<uint64_t>(value.number));
     }},
    {"estimate",
     KeyType::kDuration,
     "How long the job takes, as far as you know (--estimate). It never stops the job; a short one "
     "may "
     "start in a gap before jobs that wait. Default: not known",
     job::kEstimateMs.least,
     job::kEstimateMs.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_estimate_ms(static_cast<uint64_t>(value.number));
     }},

    {"preemptible",
     KeyType::kBoolean,
     "Whether the job may be asked to give way to a project within its quota. true: also before it "
     "has saved a "
     "checkpoint; false: never, but it only starts within its own project's quota. Default: once "
     "it has saved one",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_preemptible(value.number != 0); }},

    {"notice_signal", KeyType::kChoice,
     "Signal that every rank gets when the job is asked to save and leave (docs/scheduling.md), "
     "for "
     "programs that do not ask should_checkpoint(). Default: none",
     0, 0, "none|HUP|INT|USR1|USR2|TERM",
     [](const KeyValue& value, JobSpec* spec) {
       constexpr int kSignals[] = {0, SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGTERM};
       spec->set_notice_signal(kSignals[value.number]);
     }},

    {"notify", KeyType::kNotify,
     "Whom to tell: a list of `{on: [end, failure, finding], webhook: URL, secret_env: NAME}`, "
     "which "
     "gets a POST signed with that variable, or `{on: …, command: [PROGRAM, ARGUMENT]}`, which "
     "runs "
     "as the job on one of its nodes. Default of `on`: end"},

    {"checkpoint", KeyType::kSection, "How checkpoints are kept"},
    {"checkpoint.keep",
     KeyType::kInteger,
     "How many committed checkpoints are kept. Default: 3",
     job::kCheckpointsKept.least,
     job::kCheckpointsKept.most,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_checkpoint()->set_keep(static_cast<uint32_t>(value.number));
     }},
    {"checkpoint.writers", KeyType::kChoice,
     "Whose `step-N` directories count: `rank0`'s node, or `all` nodes'. "
     "Default: rank0",
     0, 0, "rank0|all",
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_checkpoint()->set_writers(value.number == 0 ? v1::CHECKPOINT_WRITERS_RANK0
                                                                 : v1::CHECKPOINT_WRITERS_ALL);
     }},

    {"logs", KeyType::kChoice,
     "When output arrives faster than it can be stored: `drop` and count, or `block` the rank. "
     "Default: drop",
     0, 0, "drop|block",
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_logs(value.number == 0 ? v1::LOG_POLICY_DROP : v1::LOG_POLICY_BLOCK);
     }},
    {"logs_keep",
     KeyType::kSize,
     "How much of the job's newest output is kept; a mark shows where older output was removed. "
     "Default: what the coordinator keeps of a job (--job-log-quota)",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_logs_keep_bytes(static_cast<uint64_t>(value.number));
     }},
    {"metric",
     KeyType::kString,
     "The metric that `jobctl ls`, `show` and the page show of the job, as `val/acc`. Default: its "
     "loss",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_metric(value.text); }},
    {"log_dir",
     KeyType::kString,
     "A directory on the nodes that gets a copy of every rank's output. A copy that cannot be "
     "written, or makes no progress for 10 s, is abandoned with a note in the worker's log; "
     "`jobctl "
     "logs` has everything",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_log_dir(value.text); }},
    {"tensorboard",
     KeyType::kStringList,
     "Additional directories whose TensorBoard event files are read as metrics",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) {
       spec->mutable_tensorboard_dirs()->Assign(value.list.begin(), value.list.end());
     }},
    {"role",
     KeyType::kString,
     "ROLE_NAME of the ranks. Default: default",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_role(value.text); }},
    {"run_id",
     KeyType::kString,
     "TORCHELASTIC_RUN_ID. Default: the job's number",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_run_id(value.text); }},
    {"rendezvous", KeyType::kChoice,
     "what ranks meet at: `rank0`, torch's TCPStore in rank 0, or `muster`, a store that no other "
     "job reaches. "
     "Default: rank0 up to 256 ranks, muster above",
     0, 0, "rank0|muster",
     [](const KeyValue& value, JobSpec* spec) {
       spec->set_rendezvous(value.number == 0 ? v1::RENDEZVOUS_KIND_RANK0
                                              : v1::RENDEZVOUS_KIND_MUSTER);
     }},
    {"virtual_local_rank",
     KeyType::kBoolean,
     "true: each rank sees one device and LOCAL_RANK=0. Default: false",
     0,
     0,
     {},
     [](const KeyValue& value, JobSpec* spec) { spec->set_virtual_local_rank(value.number != 0); }},
};

struct KeyAlias {
  std::string_view peer;
  std::string_view ours;
};
constexpr KeyAlias kPeerKeys[] = {
    {"entrypoint", "command"},
    {"run", "command"},
    {"commands", "command"},
    {"cmd", "command"},
    {"args", "command"},
    {"job_name", "name"},
    {"working_dir", "workdir"},
    {"cwd", "workdir"},
    {"envs", "env"},
    {"environment", "env"},
    {"environment_variables", "env"},
    {"num_processes", "resources.processes"},
    {"slots_per_trial", "resources.processes"},
    {"processes", "resources.processes"},
    {"ntasks", "resources.processes"},
    {"nprocs", "resources.processes"},
    {"ranks", "resources.processes"},
    {"world_size", "resources.processes"},
    {"num_nodes", "resources.nodes"},
    {"num_machines", "resources.nodes"},
    {"nnodes", "resources.nodes"},
    {"nodes", "resources.nodes"},
    {"nproc_per_node", "resources.per_node"},
    {"numProcPerNode", "resources.per_node"},
    {"per_node", "resources.per_node"},
    {"cpus_per_task", "resources.cpus"},
    {"cpus_per_rank", "resources.cpus"},
    {"cpus", "resources.cpus"},
    {"memory", "resources.memory"},
    {"mem", "resources.memory"},
    {"accelerators", "resources.devices"},
    {"devices", "resources.devices"},
    {"time", "max_duration"},
    {"time_limit", "max_duration"},
    {"walltime", "max_duration"},
    {"max_restarts", "restarts"},
    {"retries", "restarts"},
    {"retry", "restarts"},
    {"keep", "checkpoint.keep"},
    {"files", "sync"},
    {"file_mounts", "sync"},
    {"image_id", "image"},
    {"container_image", "image"},
    {"container", "image"},
    {"docker", "image"},
    {"volumes", "mounts"},
    {"bind_mounts", "mounts"},
    {"shm_size", "shm"},
    {"startup", "setup"},
    {"output", "outputs"},
    {"artifacts", "outputs"},
    {"results", "outputs"},
};

}  // namespace

std::string JobKeyValues(const JobKey& key) {
  switch (key.type) {
    case KeyType::kSection:
      return "section";
    case KeyType::kString:
      return "text";
    case KeyType::kCommand:
      return "list or text";
    case KeyType::kStringList:
      return "list";
    case KeyType::kStringMap:
      return "map";
    case KeyType::kInteger:
      return common::StrCat(key.least, " … ", key.most);
    case KeyType::kDuration:
      return "duration";
    case KeyType::kBoolean:
      return "true, false";
    case KeyType::kChoice: {
      std::string text = "`";
      for (const char c : key.choices) text += c == '|' ? std::string("`, `") : std::string(1, c);
      return text + "`";
    }
    case KeyType::kNodes:
      return "N or MIN:MAX";
    case KeyType::kDevices:
      return "text";
    case KeyType::kCpus:
      return common::StrCat(common::Thousandths(job::kCpuMillis.least), " … ",
                            common::Thousandths(job::kCpuMillis.most));
    case KeyType::kMemory:
      return "size (`512MiB`, `4GB`)";
    case KeyType::kNotify:
      return "list of maps";
    case KeyType::kScript:
      return "list or text";
    case KeyType::kMounts:
      return "list";
    case KeyType::kSize:
      return "size (`512MiB`, `4GB`)";
  }
  return "";
}

std::string JobKeyMeaning(const JobKey& key) {
  constexpr std::string_view kKinds = "KINDS";
  std::string meaning(key.meaning);
  if (const size_t at = meaning.find(kKinds); at != std::string::npos) {
    meaning.replace(at, kKinds.size(), common::DeviceKindNames(", ", "`"));
  }
  return meaning;
}

std::span<const JobKey> JobKeys() { return kKeys; }

std::string_view PeerKey(std::string_view key) {
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    if (!kind.is_host && (key == kind.name || key == kind.plural)) return "resources.devices";
  }
  for (const KeyAlias& alias : kPeerKeys) {
    if (alias.peer == key) return alias.ours;
  }
  return {};
}

std::string JobKeyTable() {
  std::string out = "| key | value | meaning |\n|---|---|---|\n";
  for (const JobKey& key : kKeys) {
    common::StrAppend(&out, "| `", key.path, "` | ", JobKeyValues(key), " | ", JobKeyMeaning(key),
                      " |\n");
  }
  return out;
}

}  // namespace muster::client
