#include "client/cluster/slurm_script.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/cluster/running_shell.h"
#include "client/command_line/errors.h"
#include "client/session/settings.h"
#include "client/text/record_text.h"
#include "common/base/limits.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client::cluster {
namespace {

using common::StrCat;

constexpr size_t kReadyBytesMax = 4 * 1024;

// The coordinator starts first and stops last. The script waits only with `wait`, which a signal interrupts.
constexpr std::string_view kJob = R"sh(
umask 077
cd "$root" || exit 1
PATH="$root/bin:$PATH"
export JOBCTL_CONFIG="$root/no-config"
unset JOBCTL_SERVER JOBCTL_CONTEXT
# Whoever submitted may have settings of squeue that hide what is asked for here.
for name in $(env | sed -n 's/^\(SQUEUE_[A-Z_0-9]*\)=.*/\1/p'); do unset "$name"; done
# For a socket, whose path may have about a hundred bytes.
local=$(mktemp -d /tmp/muster-XXXXXXXX) || exit 1
trap 'rm -rf "$local"' EXIT
say() { echo "$(date -u +%FT%TZ) $SLURM_JOB_ID: $*"; }
ctl() { jobctl --server "unix:$local/c.sock" --yes "$@"; }
# What a name of Slurm's is to the others: an address that is not loopback, or the name.
address() {
  name=$(scontrol show node -o "$1" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
  found=$(getent ahostsv4 "${name:-$1}" | sed -n '/^127\./d;s/ .*//p;q')
  echo "${found:-${name:-$1}}"
}
# When it ends, if it does: Slurm tells, in the environment or when it is asked.
end=${SLURM_JOB_END_TIME:-}
for try in 1 2 3 4 5; do
  [ -z "$end" ] || break
  told=$(SLURM_TIME_FORMAT=standard squeue -h -j "$SLURM_JOB_ID" -o %e 2>/dev/null) || { sleep 2; continue; }
  # Not a time: it has no limit.
  case $told in [0-9][0-9][0-9][0-9]-*) end=$(date -d "$told" +%s) ;; *) break ;; esac
done
stop_at=
if [ -n "$end" ]; then
  stop_at=$((end - margin))
  if [ "$stop_at" -le $(($(date +%s) + 15)) ]; then
    say "the time limit leaves no time to work: it is $((end - $(date +%s))) s, and the margin before it $margin s; fix: a longer --time, or a shorter --margin"
    exit 1
  fi
fi

over=
limit=
trap over=1 TERM USR1 INT
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || exit 1
head=$(address "$(echo "$hosts" | head -n 1)")
rm -f ready stop.*
if [ ! -e coordinator ]; then
  muster-coordinator init --data-dir "$root/coordinator" --name "$cluster" --host "$head" --admin "$admin" >/dev/null || exit 1
fi
: >log/coordinator
muster-coordinator --data-dir "$root/coordinator" --socket "$local/c.sock" --listen 0.0.0.0:0 --http 0.0.0.0:0 \
  --person-certificate 30d >log/coordinator 2>&1 &
coordinator=$!
turns=0
until line=$(grep ' serving endpoint=' log/coordinator); do
  turns=$((turns + 1))
  if ! kill -0 $coordinator 2>/dev/null || [ $turns -gt 300 ]; then
    say "the coordinator did not start:"
    tail -n 3 log/coordinator
    exit 1
  fi
  sleep 0.2
done
port=$(echo "$line" | sed -n 's/.* http=[^ ]*:\([0-9]*\) .*/\1/p')
# What ran in the allocation before ended with it: Slurm does not start two of this name.
for node in $(ctl nodes ls -o name); do
  ctl nodes declare-dead "$node" --reason "its allocation is over" >/dev/null
  ctl nodes rm "$node" >/dev/null
done
rm -rf tokens && mkdir tokens || exit 1
count=0
for host in $hosts; do
  ctl -q token create worker "$host" >"tokens/$host" || exit 1
  count=$((count + 1))
done
token=$(ctl -q token create person "$admin" --role admin --expires 7d) || exit 1
echo "$SLURM_JOB_ID $head:$port $count $token" >ready.new && mv ready.new ready
say "coordinator at $head, $count nodes${end:+, until $(date -u -d "@$end" +%FT%TZ)}"

# One for each node, with all of it: "8(x2),16" of processors is at least 8.
cpus=$(echo "$SLURM_JOB_CPUS_PER_NODE" | tr ',' '\n' | sed 's/(.*//' | sort -n | head -n 1)
srun --ntasks="$count" --ntasks-per-node=1 --cpus-per-task="${cpus:-1}" --cpu-bind=none --mem=0 \
  --overlap --kill-on-bad-exit=0 "$root/node.sh" "$head:$port" "$stop_at" </dev/null >>log/nodes 2>&1 &
step=$!
while [ -z "$over" ] && kill -0 $step 2>/dev/null && kill -0 $coordinator 2>/dev/null; do
  if [ -n "$stop_at" ] && [ "$(date +%s)" -ge "$stop_at" ]; then
    limit=1
    break
  fi
  sleep 1 &
  wait $!
done

# No new work, then node.sh stops what runs: its ranks save, its job waits for the next allocation.
say "ending: $(ctl ls --state starting,running -o name | wc -l) jobs run"
for host in $hosts; do ctl nodes drain "$host" --reason "its allocation ends" >/dev/null; done
: >"stop.$SLURM_JOB_ID"
turns=0
while [ $turns -lt "$margin" ] && kill -0 $coordinator 2>/dev/null && kill -0 $step 2>/dev/null; do
  [ -n "$(ctl ls --state starting,running,stopping -o name)" ] || break
  turns=$((turns + 1))
  sleep 1 &
  wait $!
done
left=$(ctl ls --state queued,restarting -o name | wc -l)
say "$left jobs wait for the next allocation"
# Only at its limit: one that ended otherwise would end so again.
if [ -n "$resubmits" ] && [ "$left" -gt 0 ] && [ -n "$limit" ]; then resubmit; fi
rm -f ready
# To the step's processes alone. srun would kill them when it is told to end.
scancel --signal=TERM "$SLURM_JOB_ID" 2>/dev/null
while kill -0 $step 2>/dev/null; do wait $step; done
rm -f stop.*
kill -TERM $coordinator 2>/dev/null
wait $coordinator
exit 0
)sh";

constexpr std::string_view kNode = R"sh(
umask 077
host=$SLURMD_NODENAME
stop_at=$2
local=$(mktemp -d "${TMPDIR:-/tmp}/muster-XXXXXXXX") || exit 1
run=$local/run
trap 'rm -rf "$local" "$run"' EXIT
# A socket's path may have about a hundred bytes.
if [ ${#run} -gt 50 ]; then run=$(mktemp -d /tmp/muster-XXXXXXXX) || exit 1; fi
name=$(scontrol show node -o "$host" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
address=$(getent ahostsv4 "${name:-$host}" | sed -n '/^127\./d;s/ .*//p;q')
"$root/bin/muster-worker" join "$1" --token-file "$root/tokens/$host" --name "$host" --state-dir "$local/worker" || exit 1
over=
trap over=1 TERM USR1 INT
setsid "$root/bin/muster-worker" --state-dir "$local/worker" --runtime-dir "$run" --run-as worker \
  ${address:+--advertise "$address"} </dev/null >>"$root/log/worker-$host" 2>&1 &
worker=$!
# Supervisors of this node's worker.
shims() {
  for pid in $(running "$root/bin/muster-shim"); do
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF " $local/"; then echo "$pid"; fi
  done
}
# Their ranks get SIGTERM and their job's grace; a job that is stopped so restarts from its checkpoint.
stop() {
  pids=$(shims)
  [ -z "$pids" ] || kill $pids 2>/dev/null
}
stopped=
while [ -z "$over" ] && kill -0 $worker 2>/dev/null; do
  # The coordinator's script has drained the nodes before it makes the file. Where a shared file system
  # shows that late, the time tells.
  if [ -e "$root/stop.$SLURM_JOB_ID" ] ||
     { [ -n "$stop_at" ] && [ "$(date +%s)" -ge $((stop_at + 15)) ]; }; then
    [ -n "$stopped" ] || stop
    stopped=1
  fi
  sleep 1 &
  wait $!
done
stop
turns=0
while [ -n "$(shims)" ]; do
  turns=$((turns + 1))
  [ $turns -lt 100 ] || kill -9 $(shims) 2>/dev/null
  sleep 0.2
done
kill -TERM $worker 2>/dev/null
wait $worker
exit 0
)sh";

std::string Assigned(std::string_view name, std::string_view value) {
  return StrCat(name, "=", ShellQuote(value), "\n");
}

bool IsAddress(std::string_view text) {
  return CheckServerAddress("", text).ok() && !text.starts_with("unix:");
}

}  // namespace

std::string SlurmName(std::string_view cluster, std::string_view id) {
  return StrCat("muster-", cluster, "-", id.substr(0, 8));
}

std::vector<std::string> OwnFlags(std::string_view cluster, std::string_view id) {
  return {StrCat("--job-name=", SlurmName(cluster, id)), "--dependency=singleton", "--no-requeue"};
}

absl::Status CheckSize(std::string_view size) {
  uint32_t least = 0, most = 0;
  const size_t dash = size.find('-');
  const bool is_range = dash != std::string_view::npos;
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view first = size.substr(0, dash);
  const std::string_view last = is_range ? size.substr(dash + 1) : first;
  if (digits(first) && digits(last) && absl::SimpleAtoi(common::ToAbsl(first), &least) &&
      absl::SimpleAtoi(common::ToAbsl(last), &most) && least > 0 && least <= most &&
      most <= common::kNodesMax) {
    return absl::OkStatus();
  }
  return Usage(
      "JC1801",
      StrCat("--nodes: \"", common::Printable(size.substr(0, 100)), "\" is not a number of nodes"),
      "-N 4, or -N 2-4");
}

std::string JobScript(const SlurmScript& script) {
  std::string resubmit = StrCat("resubmit() { sbatch --parsable");
  for (const std::string& flag : script.flags) common::StrAppend(&resubmit, " ", ShellQuote(flag));
  for (const std::string& flag : OwnFlags(script.cluster, script.id))
    common::StrAppend(&resubmit, " ", ShellQuote(flag));
  resubmit += " \"$root/job.sh\"; }\n";
  return StrCat(
      "#!/bin/sh\n# Written by jobctl cluster up: a coordinator, and a worker on each node.\n",
      "#SBATCH --nodes=", script.size,
      "\n#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n#SBATCH --open-mode=append\n#SBATCH "
      "--output=",
      script.directory, "/log/slurm-%j\n", Assigned("root", script.directory),
      Assigned("cluster", script.cluster), Assigned("admin", script.admin),
      Assigned("margin", StrCat(script.margin_s)),
      Assigned("resubmits", script.resubmits ? "1" : ""), resubmit, kJob);
}

std::string NodeScript(const SlurmScript& script) {
  return StrCat("#!/bin/sh\n# Written by jobctl cluster up: the worker of one node.\n",
                Assigned("root", script.directory), kRunningShell, kNode);
}

absl::StatusOr<Ready> ParseReady(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError("it is not what job.sh writes");
  if (text.size() > kReadyBytesMax || !text.ends_with('\n')) return wrong;
  text.remove_suffix(1);
  const std::vector<std::string> words = absl::StrSplit(common::ToAbsl(text), ' ');
  if (words.size() != 4) return wrong;
  Ready ready{.job = words[0], .https = words[1], .nodes = 0, .token = words[3]};
  const bool is_number = !ready.job.empty() && ready.job.size() <= 20 &&
                         ready.job.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || !IsAddress(ready.https) || !absl::SimpleAtoi(words[2], &ready.nodes) ||
      ready.nodes == 0 || ready.nodes > common::kNodesMax || ready.token.empty()) {
    return wrong;
  }
  return ready;
}

}  // namespace muster::client::cluster
