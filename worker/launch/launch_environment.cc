#include "worker/launch/launch_environment.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/loopback.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {
namespace {

using muster::v1::JobSpec;
using muster::v1::LaunchAttempt;

// Sorted, so that a rank's environment does not depend on a hash.
using Environment = std::map<std::string, std::string>;

constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr char kSignalsToHandle[] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // torchrun's default

void SetIfUnset(Environment* env, const std::string& name, std::string value) {
  env->try_emplace(name, std::move(value));
}

// The client's environment, without variables that an outer job or launcher meant for its own
// ranks.
Environment ClientEnvironment(const JobSpec& spec, const LaunchFacts& facts) {
  Environment env;
  for (const auto& [name, value] : spec.env()) {
    if (absl::StartsWith(name, "MUSTER_")) continue;
    env[name] = value;
  }
  // Set below where applicable; an inherited one would name the outer attempt's pipe.
  env.erase("TORCHELASTIC_TIMER_FILE");
  env["PWD"] = spec.workdir();
  SetIfUnset(&env, "PATH", kDefaultPath);
  if (!facts.home.empty()) SetIfUnset(&env, "HOME", facts.home);
  if (!facts.user.empty()) {
    SetIfUnset(&env, "USER", facts.user);
    SetIfUnset(&env, "LOGNAME", facts.user);
  }
  return env;
}

// A rank's share of the cores; or of --cpus, rounded down, because threads beyond the quota wait
// for each other.
uint32_t ThreadsOf(const LaunchAttempt& launch, const LaunchFacts& facts) {
  const uint32_t limit = launch.spec().shape().limits().cpu_millis() / 1'000;
  const bool is_limited = launch.spec().shape().limits().cpu_millis() > 0;
  const uint32_t local = std::max(1u, launch.part().local_world_size());
  return std::max(1u,
                  is_limited ? std::min(limit, facts.usable_cores) : facts.usable_cores / local);
}

// The variables that all ranks of this node share. Source: pytorch
// elastic/agent/server/local_elastic_agent.py.
void AddTorchrun(const LaunchAttempt& launch, const LaunchFacts& facts, Environment* env) {
  const JobSpec& spec = launch.spec();
  const std::string world = common::StrCat(launch.world_size());
  (*env)["WORLD_SIZE"] = world;
  (*env)["LOCAL_WORLD_SIZE"] = common::StrCat(launch.part().local_world_size());
  (*env)["GROUP_RANK"] = common::StrCat(launch.part().group_rank());
  (*env)["GROUP_WORLD_SIZE"] = common::StrCat(launch.group_world_size());
  (*env)["ROLE_NAME"] = spec.role().empty() ? "default" : spec.role();
  (*env)["ROLE_WORLD_SIZE"] = world;
  (*env)["TORCHELASTIC_RESTART_COUNT"] = common::StrCat(launch.restart_count());
  (*env)["TORCHELASTIC_MAX_RESTARTS"] = common::StrCat(launch.max_restarts());
  (*env)["TORCHELASTIC_RUN_ID"] =
      spec.run_id().empty() ? common::StrCat(launch.job()) : spec.run_id();
  SetIfUnset(env, "TORCHELASTIC_SIGNALS_TO_HANDLE", kSignalsToHandle);
  SetIfUnset(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  SetIfUnset(env, "OMP_NUM_THREADS", common::StrCat(ThreadsOf(launch, facts)));
}

void AddMuster(const LaunchAttempt& launch, const LaunchFacts& facts, Environment* env) {
  (*env)["MUSTER_JOB_ID"] = common::StrCat(launch.job());
  (*env)["MUSTER_JOB_NAME"] = launch.job_name();
  (*env)["MUSTER_ATTEMPT"] = common::StrCat(launch.attempt());
  (*env)[common::kMarkVariable] = facts.mark;
  (*env)["MUSTER_SOCKET"] = facts.trainer_socket;
  (*env)["MUSTER_RANK_TOKEN_FILE"] = facts.rank_token_file;
  (*env)["MUSTER_CHECKPOINT_DIR"] = facts.checkpoint_dir;
  (*env)["MUSTER_TENSORBOARD_DIR"] = facts.tensorboard_dir;
  (*env)["MUSTER_DIAGNOSTICS_DIR"] = facts.diagnostics_dir;
  if (!facts.secrets_dir.empty()) (*env)["MUSTER_SECRETS_DIR"] = facts.secrets_dir;
  if (!facts.resume_dir.empty()) (*env)["MUSTER_RESUME_FROM"] = facts.resume_dir;
  SetIfUnset(env, "PYTHONUNBUFFERED", "1");
  // An index means the same device in discovery and in the rank.
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    const auto& [name, value] = kind.order;
    if (!name.empty()) (*env)[std::string(name)] = value;
  }
}

// Gloo and the devices' collectives use the interface whose address other nodes know. A name that
// is not an address has none.
void AddInterfaces(const LaunchFacts& facts, Environment* env) {
  for (const InterfaceAddress& candidate : facts.interfaces) {
    if (candidate.address != facts.advertise) continue;
    SetIfUnset(env, "GLOO_SOCKET_IFNAME", candidate.interface);
    for (const common::DeviceKind& kind : common::DeviceKinds()) {
      const std::string name(kind.interface_variable);
      if (!name.empty()) SetIfUnset(env, name, candidate.interface);
    }
    return;
  }
}

std::string VisibleList(std::vector<uint32_t> indexes, size_t first, size_t count) {
  const auto begin = indexes.begin() + static_cast<std::ptrdiff_t>(std::min(first, indexes.size()));
  const auto end =
      indexes.begin() + static_cast<std::ptrdiff_t>(std::min(first + count, indexes.size()));
  return absl::StrJoin(begin, end, ",");
}

void AddRankVariables(const common::DeviceKind& kind, const LaunchFacts& facts, Environment* env) {
  for (const auto& [name, value] : kind.rank_variables) {
    const bool is_address = value.find("${address}") != std::string_view::npos;
    if (is_address && !common::IsIpAddress(facts.advertise)) continue;
    SetIfUnset(env, std::string(name),
               absl::StrReplaceAll(common::ToAbsl(value),
                                   {{"${address}", facts.advertise},
                                    {"${port}", common::StrCat(facts.first_port)}}));
  }
  if (!facts.rank_table.empty())
    SetIfUnset(env, std::string(kind.table_variable), facts.rank_table);
}

// The devices that this rank may see: the node's granted list, or with virtual_local_rank this
// rank's share of it. All other devices are hidden, even from a job that asked only for cpus.
void AddDevices(const LaunchAttempt& launch, const LaunchFacts& facts, uint32_t local_rank,
                Environment* env) {
  std::vector<uint32_t> granted(launch.part().device_indexes().begin(),
                                launch.part().device_indexes().end());
  std::sort(granted.begin(), granted.end());
  size_t first = 0, count = granted.size();
  if (launch.spec().virtual_local_rank()) {
    count = std::max<size_t>(1, granted.size() / std::max(1u, launch.part().local_world_size()));
    first = local_rank * count;
  }
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    const std::string variable(kind.visible_variable);
    const bool is_granted = kind.name == launch.part().device_kind();
    if (is_granted) AddRankVariables(kind, facts, env);
    if (variable.empty()) continue;
    if (is_granted) {
      (*env)[variable] = VisibleList(granted, first, count);
    } else if (facts.device_kinds.contains(std::string(kind.name))) {
      (*env)[variable] = "";
    }
  }
}

void AddRank(const LaunchAttempt& launch, const LaunchFacts& facts, uint32_t local_rank,
             Environment* env) {
  const std::string rank = common::StrCat(launch.part().first_rank() + local_rank);
  (*env)["RANK"] = rank;
  (*env)["ROLE_RANK"] = rank;  // one role per job
  RendezvousOf(launch).tell(launch, facts.rank_ports, local_rank, env);
  (*env)["LOCAL_RANK"] = launch.spec().virtual_local_rank() ? "0" : common::StrCat(local_rank);
  (*env)["TORCHELASTIC_ERROR_FILE"] = common::StrCat(facts.errors_dir, "/rank-", rank, ".json");
}

}  // namespace

std::vector<common::RankLaunch> BuildRanks(const LaunchAttempt& launch, const LaunchFacts& facts) {
  Environment shared = ClientEnvironment(launch.spec(), facts);
  AddTorchrun(launch, facts, &shared);
  AddMuster(launch, facts, &shared);
  AddInterfaces(facts, &shared);
  std::vector<common::RankLaunch> ranks;
  for (uint32_t local_rank = 0; local_rank < launch.part().local_world_size(); ++local_rank) {
    Environment env = shared;
    AddDevices(launch, facts, local_rank, &env);
    AddRank(launch, facts, local_rank, &env);
    common::RankLaunch& rank = ranks.emplace_back();
    rank.rank = launch.part().first_rank() + local_rank;
    rank.local_rank = local_rank;
    rank.workdir = launch.spec().workdir();
    for (const std::string& argument : launch.spec().command()) {
      rank.argv.push_back(absl::StrReplaceAll(
          argument, {{"${local_rank}", env["LOCAL_RANK"]}, {"${rank}", env["RANK"]}}));
    }
    if (!rank.argv.empty()) rank.program = rank.argv[0];
    for (const auto& [name, value] : env) rank.env.push_back(common::StrCat(name, "=", value));
  }
  return ranks;
}

common::RankLaunch BuildNotify(const muster::v1::RunNotify& order, const LaunchFacts& facts) {
  JobSpec spec;
  // It is empty if the job leaves it to its image, but this command runs outside of the image.
  spec.set_workdir(order.workdir().empty() ? "/" : order.workdir());
  *spec.mutable_env() = order.env();
  Environment env = ClientEnvironment(spec, facts);
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    if (kind.visible_variable.empty() || !facts.device_kinds.contains(std::string(kind.name)))
      continue;
    env[std::string(kind.visible_variable)] = "";
  }
  for (const auto& [name, value] : order.told()) env[name] = value;
  common::RankLaunch command;
  command.workdir = spec.workdir();
  command.argv.assign(order.command().begin(), order.command().end());
  if (!command.argv.empty()) command.program = command.argv[0];
  for (const auto& [name, value] : env) command.env.push_back(common::StrCat(name, "=", value));
  return command;
}

}  // namespace muster::worker
