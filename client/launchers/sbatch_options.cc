#include "client/launchers/sbatch_options.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "common/text/strings.h"
#include "common/text/word_list.h"

namespace muster::client {
namespace {

constexpr LeftOutOption kOptions[] = {
    // Options without which the job means the same.
    {"output|o|error|e|open-mode", "jobctl logs has the output", ""},
    {"partition|p|account|A|qos|q|wckey|reservation", "there is one queue", ""},
    {"priority|nice", "jobctl submit --priority P decides which job goes first", ""},
    {"mail-type|mail-user", "notify of the job file", ""},
    {"requeue", "a job continues after a lost node anyway, and restarts: R after a failing rank",
     ""},
    {"exclusive|oversubscribe|s|overcommit|O", "devices are never shared, nodes are", ""},
    {"get-user-env|propagate", "ranks get your environment and the worker's limits", ""},
    {"comment|extra|quiet|Q|verbose|v|parsable|wait|W|ignore-pbs|kill-on-invalid-dep|"
     "delay-boot|power|acctg-freq|profile|cpu-freq|gpu-freq|tmp|mcs-label|stepmgr|help|h|usage",
     "", ""},
    {"distribution|m|contiguous|switches|spread-job|use-min-nodes|hint|prefer|network|mincpus|"
     "ntasks-per-core|ntasks-per-socket|threads-per-core|cores-per-socket|sockets-per-node|"
     "extra-node-info|B|core-spec|S|thread-spec|gres-flags|tres-bind|mem-bind|cpu-bind|gpu-bind|"
     "accel-bind|segment|resv-ports|relative|r|threads|T",
     "jobctl plan shows where ranks would run", ""},
    {"mem-per-gpu|cpus-per-gpu|gpus-per-socket|tres-per-task",
     "resources.memory and resources.cpus limit each rank", ""},
    {"mpi|label|l|unbuffered|u|kill-on-bad-exit|K|immediate|I|jobid|overlap|exact|export-all|"
     "preserve-env|E|no-allocate|Z|slurmd-debug|msg-timeout|pty|multi-prog|disable-status|X|"
     "compress|bcast|send-libs|treewidth|interactive",
     "", ""},
    // Options without which it would mean something else.
    {"array|a", "one task would run, not each",
     "submit it once for each: jobctl submit -e TASK=3 …"},
    {"dependency|d", "it would start without waiting", "jobctl wait OTHER-JOB && jobctl submit …"},
    {"begin|b", "it would start at once", "submit it then, with at or cron"},
    {"hold|H", "it would start at once", "submit it when it may start"},
    {"deadline", "it could run past it", "--time TIME ends it after that long"},
    {"container-image|container|container-id|container-name", "it would run on the host",
     "jobctl submit --image IMAGE …"},
    {"signal", "ranks would only get SIGTERM, and SIGKILL after --grace",
     "save on SIGTERM, and give --grace the seconds that this takes"},
    {"input|i", "ranks have no standard input", "let the program read the file"},
    {"licenses|L", "Muster does not count them", "limit by hand how many such jobs run"},
    {"nodelist|w|exclude|x|nodefile|F|constraint|C|cluster-constraint|clusters|M",
     "it could start on any node", "ask for a model with --devices, or drain the other nodes"},
    {"no-requeue", "it would continue elsewhere after a lost node",
     "leave the option out if that is right"},
    {"no-kill|k", "when a node is lost all ranks restart", "leave the option out if that is right"},
    {"ntasks-per-gpu|ntasks-per-tres", "the number of ranks would be another one",
     "write it: --ntasks N"},
    {"uid|gid", "the ranks' account is not chosen here", "see jobctl help submit: --project"},
    {"bb|bbf|burst-buffer", "nothing would be staged in", "--sync sends a directory along"},
    {"reboot", "no node would be restarted", "restart it by hand"},
    {"wrap|test-only", "it is for sbatch's own command line", "jobctl submit --dry-run …"},
    {"export-file", "its variables would be missing", "name them: -e NAME=VALUE"},
    {"export", "the ranks' environment would be another one",
     "--clean-env sends none of yours, -e NAME=VALUE one variable"},
    {"het-group|hetjob|packjob|pack-group", "its parts would be one job", "submit each part"},
    {"prolog|epilog|task-prolog|task-epilog", "it would not run", "--setup runs before the ranks"},
};
constexpr LeftOutOption kContainers = {"container-…", "it would run on the host",
                                       "jobctl submit --image IMAGE …, mounts: of the job file"};
constexpr LeftOutOption kUnknown = {"", "it is not known here", "correct it, or leave it out"};

}  // namespace

const LeftOutOption& FindLeftOut(std::string_view name) {
  const auto* const found = std::find_if(
      std::begin(kOptions), std::end(kOptions),
      [&](const LeftOutOption& option) { return common::HasWord(option.names, name); });
  if (found != std::end(kOptions)) return *found;
  return name.starts_with("container-") || name.starts_with("no-container-") ? kContainers
                                                                             : kUnknown;
}

void LeaveOutOption(std::string_view name, std::string_view shown, JobDraft* draft) {
  const LeftOutOption& option = FindLeftOut(name);
  const std::string text =
      common::StrCat(shown, option.what.empty() ? "" : ": ", std::string(option.what));
  if (!option.is_refused()) {
    draft->left_out.push_back(text);
    return;
  }
  const bool is_in_table = &option != &kContainers && &option != &kUnknown;
  draft->refused.push_back(
      {.name = std::string(is_in_table ? option.names.substr(0, option.names.find('|')) : name),
       .what = text,
       .fix = std::string(option.fix)});
}

}  // namespace muster::client
