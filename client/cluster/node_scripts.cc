#include "client/cluster/node_scripts.h"

#include "client/cluster/running_shell.h"
#include "client/text/record_text.h"
#include "common/text/strings.h"

namespace muster::client::cluster {
namespace {

using common::StrCat;

// Of a socket's path; a worker's directory of sockets may be 60 bytes long.
constexpr int kRuntimeBytesMost = 50;

std::string Variables(const NodePlace& place) {
  return StrCat("umask 077\ndir=", ShellQuote(place.Path()), "\nid=", ShellQuote(place.id),
                "\nnode=", ShellQuote(place.node), "\ncluster=", ShellQuote(place.cluster), "\n");
}

// The directory is this cluster's, and the working directory.
constexpr std::string_view kEnter = R"sh(
cd "$dir" && [ "$(cat id)" = "$id" ] || exit 1
me=$(pwd -P)
run=$(cat runtime)
)sh";

// Detached: in a new session, without ssh's descriptors. Leaves its pid in $pid.
constexpr std::string_view kStart = R"sh(
start() {
  log=$1; shift
  setsid "$@" </dev/null >>"$log" 2>&1 &
  pid=$!
}
)sh";

constexpr std::string_view kPrepare = R"sh(
fail() { echo "$1" >&2; exit 1; }
[ "$(uname -sm)" = "$machine" ] || fail "it is a $(uname -sm), and the programs here are for $machine"
for tool in tar gzip setsid sed grep; do
  command -v $tool >/dev/null || fail "it has no $tool"
done
mkdir -p "$(dirname "$dir")" || exit 1
# Of two that start a cluster of this name, one makes it.
if ! mkdir "$dir"; then
  [ ! -e "$dir" ] || fail "$dir exists there already; is a cluster of this name up? remove it: jobctl cluster down, or rm -r on the node"
  exit 1
fi
cd "$dir" || exit 1
echo "$id" >id || exit 1
room=$(df -Pk . | sed -n '2s/^[^ ]* *[0-9]* *[0-9]* *\([0-9]*\) .*/\1/p')
[ "${room:-0}" -ge "$need" ] || fail "$(pwd -P) has $room KiB free, and the programs need $need"
mkdir bin log || exit 1
run=$(pwd -P)/run
if [ ${#run} -gt "$longest" ]; then run=$(mktemp -d /tmp/muster-XXXXXXXX); else mkdir run; fi || exit 1
echo "$run" >runtime
)sh";

constexpr std::string_view kCoordinator = R"sh(
bin/muster-coordinator init --data-dir "$me/coordinator" --name "$cluster" --host "$host" </dev/null >init || exit 1
start log/coordinator.log bin/muster-coordinator --data-dir "$me/coordinator" --socket "$run/c.sock" \
  --listen "0.0.0.0:$port" --http "0.0.0.0:$((port + 1))" --person-certificate 30d
turns=0
until grep -q ' serving endpoint=' log/coordinator.log; do
  turns=$((turns + 1))
  if ! kill -0 $pid 2>/dev/null || [ $turns -gt 150 ]; then
    echo "its coordinator did not start" >&2
    tail -n 3 log/coordinator.log >&2
    exit 1
  fi
  sleep 0.2
done
cat init
rm init
)sh";

// A worker that cannot start exits at once; the coordinator reports which have joined.
constexpr std::string_view kWorker = R"sh(
[ $? = 0 ] || exit 1
# What of it takes root is not to be had then.
[ -n "$sandbox" ] || sandbox=$([ "$(id -u)" = 0 ] && echo none || echo on)
start log/worker.log bin/muster-worker --state-dir "$me/worker" --runtime-dir "$run/w" --run-as worker \
  --sandbox "$sandbox" "$@"
sleep 0.5
kill -0 $pid 2>/dev/null || { tail -n 3 log/worker.log >&2; exit 1; }
)sh";

// Finds processes by their program, as a recorded pid may belong to another process by now.
constexpr std::string_view kRemove = R"sh(
cd "$dir" 2>/dev/null || exit 0
# Another cluster's, of the same name.
[ "$(cat id 2>/dev/null)" = "$id" ] || exit 0
me=$(pwd -P)
run=$(cat runtime 2>/dev/null)
# What descends from a process.
below() {
  for child in $(cat /proc/$1/task/*/children 2>/dev/null); do
    echo $child
    below $child
  done
}
end() {
  pids=$(running "$me/bin/$1")
  [ -z "$pids" ] || kill $pids 2>/dev/null
  turns=0
  while [ -n "$pids" ]; do
    [ $turns -lt $(($2 * 5)) ] || kill -9 $pids $(for p in $pids; do below $p; done) 2>/dev/null
    [ $turns -lt $(($2 * 5 + 50)) ] || { echo "$1 does not end: process" $pids >&2; exit 1; }
    turns=$((turns + 1))
    sleep 0.2
    pids=$(running "$me/bin/$1")
  done
}
end muster-shim "$grace"
end muster-worker 10
end muster-coordinator 20
cd /
case $run in /tmp/muster-*) rm -rf "$run" ;; esac
rm -rf "$me" || { sleep 1; rm -rf "$me"; } || exit 1
# The directories above, as far as they are empty and were made for clusters.
above=$(dirname "$me")
rmdir "$above" 2>/dev/null || exit 0
case $dir in
.muster/clusters/*)
  above=$(dirname "$above")
  rmdir "$above" 2>/dev/null && rmdir "$(dirname "$above")" 2>/dev/null ;;
esac
exit 0
)sh";

}  // namespace

std::string NodePlace::Path() const { return StrCat(directory, "/", cluster, "/", node); }

std::string PrepareScript(const NodePlace& place, const std::string& machine, uint64_t room_kib) {
  return StrCat(Variables(place), "machine=", ShellQuote(machine), "\nneed=", room_kib,
                "\nlongest=", kRuntimeBytesMost, "\n", kPrepare);
}

std::string CoordinatorScript(const NodePlace& place, const std::string& host, uint32_t port) {
  return StrCat(Variables(place), "host=", ShellQuote(host), "\nport=", port, "\n", kEnter, kStart,
                kCoordinator);
}

std::string WorkerScript(const NodePlace& place, const WorkerStart& start) {
  std::string flags = "set --";
  if (!start.advertise.empty())
    common::StrAppend(&flags, " --advertise ", ShellQuote(start.advertise));
  if (!start.devices.empty()) common::StrAppend(&flags, " --devices ", ShellQuote(start.devices));
  return StrCat(
      Variables(place), kEnter, kStart, flags, "\nsandbox=", ShellQuote(start.sandbox),
      "\nbin/muster-worker join ", ShellQuote(start.coordinator),
      " --token-file - --name \"$node\" --state-dir \"$me/worker\" >/dev/null <<'TOKEN'\n",
      start.token, "\nTOKEN", kWorker);
}

std::string WorkerLogScript(const NodePlace& place) {
  return StrCat(Variables(place), kEnter, "tail -n 3 log/worker.log\n");
}

std::string RemoveScript(const NodePlace& place, int64_t grace_s) {
  return StrCat(Variables(place), "grace=", grace_s, "\n", kRunningShell, kRemove);
}

}  // namespace muster::client::cluster
